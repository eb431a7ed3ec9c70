"""Reading models and checking them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport import formats
from graphport.api.dialect_graphs import custom_domains, has_exact, record_dialect_graph
from graphport.api.model import Model
from graphport.api.temporary_source import map_weights, path_of, replace_path, write_temporary
from graphport.conversion.legalize import legalize
from graphport.core import budget
from graphport.core.argument_types import check_arguments, raise_mismatches
from graphport.core.diagnostics import Diagnostic, DiagnosticError, raise_errors
from graphport.core.garbage_collection import paused_collection
from graphport.core.log import log_findings
from graphport.core.progress import stage
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.ops.operator_facts import shared_inference_cache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from graphport.api.model import ModelSource, Shapes

_FIXED = "inputs.fixed"
"""The note of a graph that names arguments whose values the reader has taken from `shapes`."""


@check_arguments
def load(
    path: ModelSource,
    *,
    raw: bool = False,
    shapes: Shapes | None = None,
    edition: str | None = None,
    program: str | None = None,
    states: bool = False,
    format: str | None = None,
) -> Model:
    """Read a model.

    Args:
        path: a file or folder in any format; the format is recognized by content, then by name. Or the bytes of a
            file, a file that is open for reading bytes, or a model in memory: `onnx.ModelProto`, `onnx_ir.Model`,
            `openvino.Model`, `torch.export.ExportedProgram`, `torch.jit.ScriptModule`, `jax.export.Exported`,
            `keras.Model`.
        raw: return the dialect graph without legalization.
        shapes: binds open dims of inputs before any evaluation; in TorchScript a number sets a number argument.
        edition: of NNEF, `"provisional"` or `"final"`; recognized by content if `None`.
        program: the name of a program of a PyTorch package that contains several.
        states: whether buffers that a PyTorch program modifies are kept between runs, as inputs and outputs.
        format: the format of bytes whose content does not identify it; a path has a name.

    Returns:
        A new model in the canonical dialect; operators without a canonical form are opaque. Known violations of the
        format by other tools are warnings here, and errors in `check`.

    Raises:
        DiagnosticError: all errors of the first stage with errors; IO0020 `path` is no model.
    """
    if isinstance(path, Model):
        return path
    options: dict[str, Any] = {"edition": edition, "program": program, "states": states}
    model, findings = _read_source(path, format, raw=raw, shapes=shapes, **options)
    log_findings(findings)
    raise_errors(findings)
    return model


@check_arguments
def check(
    path: ModelSource,
    *,
    edition: str | None = None,
    shapes: Shapes | None = None,
    program: str | None = None,
    format: str | None = None,
) -> list[Diagnostic]:
    """Return all findings on a model, with the arguments of `load`: grammar, names, types, shapes."""
    return checked(path, edition=edition, shapes=shapes, program=program, format=format)[1]


def checked(
    path: ModelSource,
    *,
    edition: str | None = None,
    shapes: Shapes | None = None,
    program: str | None = None,
    format: str | None = None,
) -> tuple[Model | None, list[Diagnostic]]:
    """Return the findings of `check`, and the part of the model that was read; it may contain errors."""
    try:
        return _read_source(path, format, shapes=shapes, edition=edition, program=program, tolerant=False)
    except DiagnosticError as error:
        return None, error.diagnostics


# Pause the garbage collector while reading: reading creates many objects, and all of them remain in use.
@paused_collection()
def _read_source(path: ModelSource, format: str | None, **options: Any) -> tuple[Model, list[Diagnostic]]:
    """Read a path, or a source without one."""
    if isinstance(path, Model):
        return path, [*path.findings]
    file = path_of(path)
    if file is not None:
        return _read(file, **options)
    with write_temporary(path, format) as file:
        model, findings = _read(file, **options)
        map_weights(model.graph)
        findings = [replace_path(finding, file) for finding in findings]
        return replace(model, path=None, findings=findings), findings


def normalize_shapes(shapes: Shapes | None) -> dict[str, Sequence[float | str]]:
    """Return shapes as sequences: a single number or string is a sequence of one.

    Raises:
        DiagnosticError: IO0021 a dim is no number and no string.
    """
    found: dict[str, Sequence[float | str]] = {}
    for name, given in (shapes or {}).items():
        shape: Any = given.tolist() if isinstance(given, np.ndarray) else given
        found[name] = [*shape] if isinstance(shape, Iterable) and not isinstance(shape, str) else [shape]
    dims = {f"{name}[{axis}]": dim for name, shape in found.items() for axis, dim in enumerate(shape)}
    raise_mismatches("shapes", dict.fromkeys(dims, "int | float | str"), dims)
    return found


@budget.fresh()
@shared_inference_cache()
def _read(
    path: str | Path,
    *,
    raw: bool = False,
    shapes: Shapes | None,
    edition: str | None,
    program: str | None,
    states: bool = False,
    tolerant: bool = True,
) -> tuple[Model, list[Diagnostic]]:
    kind, place = formats.locate(path)
    options = {"edition": edition, "program": program, "states": states}
    shapes = normalize_shapes(shapes)
    with stage(f"reading {place.name}"):
        graph, findings = kind.read(place, shapes=shapes, tolerant=tolerant, **options)
    versions = kind.versions(graph)
    kernels = kind.kernels(graph)
    if shapes:
        fixed: Any = graph.notes.pop(_FIXED, ()) if graph.has_notes else ()
        bind_inputs(graph, {name: shape for name, shape in shapes.items() if name not in fixed})
    if raw and not shapes and kind.has_facts(graph):
        found = []
        read = as_read = None
    elif raw:
        inference = Inference()
        inference.graph(graph, check_declared=True)
        found = inference.findings
        if kind.dialect and registry.record(kind.dialect).has_complex:
            # Lists and complex tensors are expanded before rules apply to the graph.
            _, found = legalize(rewrite.copy(graph), in_place=True)
        read = as_read = None
    else:
        read = rewrite.copy(graph) if custom_domains(graph) else None
        as_read = rewrite.copy(graph) if has_exact(graph) else None
        graph, found = legalize(graph, in_place=True)
    if not shapes:
        kind.mark_again(graph)
    findings = list(dict.fromkeys([*findings, *found]))
    as_it_was, words = (None if each is None else record_dialect_graph(each, graph) for each in (read, as_read))
    model = Model(graph, kind.name, place, findings, versions, kernels=kernels, kept=as_it_was, words=words)
    return model, findings


def as_model(source: ModelSource) -> Model:
    """Return `source` if it is a `Model`; otherwise load it."""
    return source if isinstance(source, Model) else load(source)


def from_onnx(model: Any) -> Model:
    """The model of an `onnx.ModelProto` or `onnx_ir.Model`."""
    from graphport.formats import onnx

    if path_of(model) is not None or not hasattr(model, "graph"):
        return load(model)
    kind = formats.FORMATS["onnx"]
    findings: list[Diagnostic] = []
    make = onnx.from_ir if type(model).__module__.startswith("onnx_ir") else onnx.from_proto
    raw = make(model, findings=findings)
    graph, found = legalize(raw)
    raise_errors(found)
    return Model(graph, "onnx", None, [*findings, *found], kind.versions(raw))


def from_jax(function: Any, *args: Any, **kwargs: Any) -> Model:
    """Export a function with `jax.export` and read the result from memory; requires jax.

    Args:
        function: a function, a result of `jax.jit`, or a `jax.export.Exported`, which has no further arguments.
        args: example arguments: arrays, or `jax.ShapeDtypeStruct` with symbolic dims, in any pytree.
        kwargs: keyword example arguments.

    Raises:
        DiagnosticError: SH0011 jax is not installed, or does not export the function; errors of the reader.
    """
    from graphport.formats.stablehlo.exporting import exported
    from graphport.formats.stablehlo.reader import read_bytes

    kind = formats.FORMATS["stablehlo"]
    raw, findings = read_bytes(exported(function, args, kwargs), getattr(function, "__name__", "main"))
    versions = kind.versions(raw)
    graph, found = legalize(raw, in_place=True)
    findings = list(dict.fromkeys([*findings, *found]))
    raise_errors(findings)
    return Model(graph, kind.name, None, findings, versions)


@check_arguments
def from_torch(
    module: Any, args: Any = (), kwargs: Any = None, *, dynamic_shapes: Any = None, states: bool = False
) -> Model:
    """Export a `torch.nn.Module` and read the result from memory; requires torch.

    Args:
        module: a module in eval mode, or a result of `torch.export.export`.
        args: positional example arguments for the export.
        kwargs: keyword example arguments.
        dynamic_shapes: the open dims, as for `torch.export.export`.
        states: as for `load`.

    Raises:
        DiagnosticError: PT0013 torch is not installed, or does not export the module; errors of the reader.
    """
    from graphport.formats.pytorch.pt2 import exported, read_bytes

    kind = formats.FORMATS["pt2"]
    data = exported(module, args, kwargs, dynamic_shapes)
    graph, findings = read_bytes(data, states=states)
    versions = kind.versions(graph)
    graph, found = legalize(graph, in_place=True)
    findings = list(dict.fromkeys([*findings, *found]))
    raise_errors(findings)
    return Model(graph, kind.name, None, findings, versions)
