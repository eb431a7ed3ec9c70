"""Reading models and checking them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from graphport import formats
from graphport.api.foreign import foreign, has_exact, kept
from graphport.api.model import Model
from graphport.api.received import hold, received, renamed
from graphport.conversion.legalize import legalize
from graphport.core import budget
from graphport.core.collection import paused_collection
from graphport.core.diagnostics import Diagnostic, DiagnosticError, raise_errors
from graphport.core.progress import stage
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.ops.operator_facts import one_memory

if TYPE_CHECKING:
    from graphport.api.model import Shapes

_FIXED = "inputs.fixed"
"""The note of a graph that names arguments whose values the reader has taken from `shapes`."""


def load(
    path: str | Path | bytes | BinaryIO,
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
            file, or one that is open for reading bytes.
        raw: the dialect's own graph, nothing legalized.
        shapes: binds unspecified extents of inputs before anything is evaluated.
        edition: of NNEF, `"provisional"` or `"final"`; by content if `None`.
        program: which one, of a package of PyTorch's that has several.
        states: whether buffers that a program of PyTorch's changes are kept from run to run, as inputs and outputs.
        format: of bytes whose content does not say it; a path has a name.

    Returns:
        A model that nobody else holds, in canonical words where possible; what has no canonical form stays opaque.
        What other tools are known to write against a format's rules is a warning here, and an error for `check`.

    Raises:
        DiagnosticError: all errors of the first stage that found any.
    """
    options: dict[str, Any] = {"edition": edition, "program": program, "states": states}
    model, findings = _given(path, format, raw=raw, shapes=shapes, **options)
    raise_errors(findings)
    return model


def check(
    path: str | Path | bytes | BinaryIO,
    *,
    edition: str | None = None,
    shapes: Shapes | None = None,
    program: str | None = None,
    format: str | None = None,
) -> list[Diagnostic]:
    """All findings on a model, given as to `load`: grammar, names, types, shapes; none if there is nothing to say."""
    return checked(path, edition=edition, shapes=shapes, program=program, format=format)[1]


def checked(
    path: str | Path | bytes | BinaryIO,
    *,
    edition: str | None = None,
    shapes: Shapes | None = None,
    program: str | None = None,
    format: str | None = None,
) -> tuple[Model | None, list[Diagnostic]]:
    """What `check` finds, and the model as far as it could be read: what is wrong with it may stand in it."""
    try:
        return _given(path, format, shapes=shapes, edition=edition, program=program, tolerant=False)
    except DiagnosticError as error:
        return None, error.diagnostics


# Reading and what follows make one graph: the collector looks through it once, and not after each stage.
@paused_collection()
def _given(path: str | Path | bytes | BinaryIO, format: str | None, **options: Any) -> tuple[Model, list[Diagnostic]]:
    """What `_read` makes of a path, or of bytes, which have none."""
    if isinstance(path, str | Path):
        return _read(path, **options)
    with received(path, format) as file:
        model, findings = _read(file, **options)
        hold(model.graph)
        findings = [renamed(finding, file) for finding in findings]
        return replace(model, path=None, findings=findings), findings


@budget.fresh()
@one_memory()
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
            # Its lists and complex tensors are taken apart before its words have rules.
            _, found = legalize(rewrite.copy(graph), in_place=True)
        read = as_read = None
    else:
        read = rewrite.copy(graph) if foreign(graph) else None
        as_read = rewrite.copy(graph) if has_exact(graph) else None
        graph, found = legalize(graph, in_place=True)
    if not shapes:
        kind.mark_again(graph)
    findings = list(dict.fromkeys([*findings, *found]))
    as_it_was, words = (None if each is None else kept(each, graph) for each in (read, as_read))
    model = Model(graph, kind.name, place, findings, versions, kernels=kernels, kept=as_it_was, words=words)
    return model, findings


def from_onnx(model: Any) -> Model:
    """The model of an `onnx.ModelProto` or `onnx_ir.Model`."""
    from graphport.formats import onnx

    kind = formats.FORMATS["onnx"]
    findings: list[Diagnostic] = []
    make = onnx.from_ir if type(model).__module__.startswith("onnx_ir") else onnx.from_proto
    raw = make(model, findings=findings)
    graph, found = legalize(raw)
    raise_errors(found)
    return Model(graph, "onnx", None, [*findings, *found], kind.versions(raw))


def from_torch(
    module: Any, args: Any = (), kwargs: Any = None, *, dynamic_shapes: Any = None, states: bool = False
) -> Model:
    """The model of a `torch.nn.Module`, exported here and read from memory; torch has to be installed.

    Args:
        module: a module in eval mode, or what `torch.export.export` has made of one.
        args: what it is exported with, in order.
        kwargs: by name.
        dynamic_shapes: which extents stay open, as `torch.export.export` takes it.
        states: as for `load`.

    Raises:
        DiagnosticError: PT0013 torch is not there, or does not export the module; what the reader raises.
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
