"""Writing models."""

from __future__ import annotations

from io import TextIOBase
from os import PathLike
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, Unpack, cast

from graphport import formats
from graphport.api.dialect_graphs import custom_domains
from graphport.api.load import as_model
from graphport.api.model import Model, QuantizedModel
from graphport.api.staging import stage_target
from graphport.conversion.export import Remedies, export_graph, refusals
from graphport.conversion.hooks import before_export, optimize
from graphport.conversion.legalize import legalize
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core import budget
from graphport.core.argument_types import check_arguments
from graphport.core.atomic_write import replacing
from graphport.core.diagnostics import Diagnostic, DiagnosticError, raise_errors
from graphport.ir import rewrite
from graphport.ir.notes import METADATA
from graphport.ops.bind import bind_example
from graphport.ops.infer import infer
from graphport.ops.operand_presence import require_operands
from graphport.passes import driver
from graphport.passes.fuse_expressions import without_expressions
from graphport.proof.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.api.model import ModelSource
    from graphport.formats.options import WriteOptions
    from graphport.ir.graph import Graph


class SaveReport(list[Diagnostic]):
    """The findings of `save`. The file is unverified: `convert` and `verify` prove that it computes the same."""

    verdict: ClassVar[Verdict] = Verdict.NOT_VERIFIED


@check_arguments
def save(
    model: ModelSource, path: str | Path | BinaryIO, *, format: str | None = None, **options: Unpack[WriteOptions]
) -> SaveReport:
    """Write a model without a proof; the format is `format`, else that of the name. A raw model keeps its format.

    Args:
        model: see `load`.
        path: a file, or a folder for formats of several files; or a file that is open for writing bytes, which needs
            `format`.
        format: the format, if the name does not state it.
        **options: of the writer.

    Returns:
        Findings: constructs that a common reader of the format rejects. The report's `verdict` is `not verified`.

    Raises:
        DiagnosticError: LEG0002 for each operator that the format does not support; nothing is written then.
    """
    model = as_model(model)
    if not isinstance(path, str | PathLike):
        return _save_to_open_file(model, path, format, options)
    kind = formats.by_name(path, format)
    kind.check_choices(options)
    graph = model.graph
    if model.is_raw and model.format == kind.name and not options.keys() & set(kind.preparations):
        return SaveReport(kind.write(graph, path, **options))
    if model.format == kind.name and not options and kind.copy_unchanged(graph, path):
        return SaveReport()
    stated = export(model, kind, options)
    if not isinstance(model, QuantizedModel):
        return SaveReport([*stated.findings, *kind.write(stated.graph, path, **stated.options)])
    # What belongs together is seen together.
    with stage_target(path, kind) as place:
        findings = place.write(stated.graph, kind, stated.options)
        write_scales(model, kind, place.path)
        place.accept()
    return SaveReport([*stated.findings, *findings])


def _save_to_open_file(model: Model, file: BinaryIO, format: str | None, options: WriteOptions) -> SaveReport:
    """Write a model to an open file.

    Raises:
        DiagnosticError: IO0020 there is no format, or the model needs several files.
    """
    if not hasattr(file, "write") or isinstance(file, TextIOBase) or format is None:
        message = f"cannot write a model to an object of type {type(file).__name__}"
        remedy = "pass a path, or a file opened in binary mode, with format='onnx'"
        raise DiagnosticError(Diagnostic("IO0020", message, None, remedy))
    kind = formats.called(format)
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / f"model{kind.streamed or next(iter(kind.endings), '')}"
        report = save(model, path, format=format, **options)
        written = [each for each in Path(folder).rglob("*") if each.is_file()]
        if written != [path]:
            names = ", ".join(sorted(each.name for each in written))
            message = f"{kind.title} stores this model in several files: {names}"
            raise DiagnosticError(Diagnostic("IO0020", message, None, "pass a path instead of an open file"))
        with path.open("rb") as source:
            try:
                copyfileobj(source, file)
            except (OSError, ValueError) as error:
                message = f"cannot write a model to an object of type {type(file).__name__}: {error}"
                raise DiagnosticError(Diagnostic("IO0020", message, None, "pass a file opened in mode 'wb'")) from error
    return report


def to_torch(model: ModelSource) -> Any:
    """`model` as a `torch.nn.Module` with trainable parameters; requires torch.

    The module is that of the program that `save` writes as `.pt2`.

    Raises:
        DiagnosticError: PT0013 torch is not installed; LEG0002 for each operator that a program does not support.
    """
    model = as_model(model)
    from graphport.formats.pytorch.pt2.exporting import loaded

    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model.pt2"
        save(model, path, format="pt2")
        return loaded(path)


def write_scales(model: Model, kind: formats.Format, path: Path) -> None:
    """Write the calibration table next to an ncnn file, or the qparams that tools read next to a float model."""
    if not isinstance(model, QuantizedModel):
        return
    if model.scales is not None and kind.name == "ncnn":
        from graphport.formats.ncnn import write_table

        write_table(path.with_suffix(".table"), model.scales)
    if model.report is not None and kind.name == "onnx":
        from graphport.quantization.export_form import sidecar_file

        found = sidecar_file(model.graph, model.report.settings)
        if found is not None:
            with replacing(path.with_suffix(found[0])) as file:
                file.write(found[1].encode())


def to_onnx(model: ModelSource) -> Any:
    """`model` as an `onnx.ModelProto`.

    Raises:
        DiagnosticError: LEG0001 for nodes that have no canonical form and belong to no ONNX domain.
    """
    model = as_model(model)
    from graphport.formats.onnx import to_proto

    kind = formats.FORMATS["onnx"]
    return to_proto(convert_to_dialect(model, kind))


class Export(NamedTuple):
    """A dialect graph, options of its writer, and findings of the export."""

    graph: Graph
    options: Mapping[str, Any]
    findings: Sequence[Diagnostic] = ()


def export(model: Model, kind: formats.Format, options: Mapping[str, Any]) -> Export:
    """Convert `model` to the dialect of a format.

    Raises:
        DiagnosticError: LEG0002 for each operator that the format does not support; EDIT0015 the model has new
            metadata, and the format has none.
    """

    def exported(dialect: str) -> Graph:
        is_whole = not (options.get("allow_fragments") or options.get("allow_custom"))
        newest = options.get("ir_opset")
        return convert_to_dialect(model, kind, is_whole=is_whole, newest=newest, dialect=dialect, options=options)

    stated = model.graph.note(METADATA)
    if stated and not kind.has_metadata:
        message = f"{kind.title} has no metadata: {', '.join(cast('dict[str, str]', stated))}"
        formats_with = " or ".join(each.endings[0] for each in formats.FORMATS.values() if each.has_metadata)
        raise DiagnosticError(Diagnostic("EDIT0015", message, model.graph.origin, f"write {formats_with}"))
    if isinstance(model, QuantizedModel):
        # The format determines the types of the quantization target.
        options = _with_flavour(model, kind, options)
        return Export(exported(kind.dialects_with(**options)[0]), options)
    return Export(*kind.choose_flavour(exported, options, model.versions if model.format == kind.name else {}))


def _with_flavour(model: QuantizedModel, kind: formats.Format, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the NNEF flavour that the target of `model` reads to `options`, if they leave it open."""
    from graphport.quantization.targets import TARGETS

    target = None if model.report is None else TARGETS.get(model.report.settings.target)
    if target is None or target.flavour is None or options.get("flavour") or kind.name not in target.formats:
        return options
    return {**options, "flavour": target.flavour}


@budget.fresh()
def convert_to_dialect(
    model: Model,
    kind: formats.Format,
    *,
    is_whole: bool = True,
    newest: int | None = None,
    dialect: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Graph:
    """Convert `model` to a dialect; without `is_whole`, operators that the dialect lacks remain canonical.

    Applies the `options` of the writer that change the graph: another batch size, fused operators.
    """
    graph, findings = legalize(model.graph, keep=custom_domains(model.graph) if kind.name == "onnx" else ())
    raise_errors(findings)
    require_operands(graph)
    graph = apply_options(without_expressions(graph), options)
    if target := kind.dialect if dialect is None else dialect:
        stated, findings = _export_folded(graph, target, newest, Remedies())
        if findings and is_whole:
            remedies = Remedies({value.name for value in graph.values()}, _unhelped_by_binding(graph, target))
            stated, findings = _export_folded(graph, target, newest, remedies)
        if is_whole:
            raise_errors(findings)
        graph = stated
        if options.get("optimize"):
            optimize(graph, target)
    elif kind.name == "onnx" and isinstance(model, QuantizedModel):
        graph = _with_integer_form(graph, model)
    elif kind.name == "onnx":
        graph = rewrite.copy(graph) if graph is model.graph else graph
        before_export(graph, kind.name)
    return remove_unused_constants(graph)


def _export_folded(graph: Graph, target: str, newest: int | None, remedies: Remedies) -> tuple[Graph, list[Diagnostic]]:
    """Lift a graph; fold shapes and constants if operators are unsupported."""
    stated, findings = export_graph(graph, target, newest=newest, remedies=remedies)
    for prepared in (fold_shapes, fold_constants):
        twin = prepared(graph) if findings else None
        if twin is not None:
            stated, findings = export_graph(twin, target, newest=newest, remedies=remedies)
    return stated, findings


def _unhelped_by_binding(graph: Graph, target: str) -> frozenset[str]:
    """Return the canonical operators that are unsupported even if symbolic dims are bound."""
    bound = rewrite.copy(graph)
    if not bind_example(bound) or infer(bound):
        return frozenset()
    before = refusals(graph, target)
    after = before
    for prepared in (None, fold_shapes, fold_constants):
        twin = bound if prepared is None else prepared(bound)
        after = after if twin is None else refusals(twin, target)
        if not after:
            break
    opaque = {node.op for node in graph if node.dialect}
    helped = {op for (op, reason), count in before.items() if after.get((op, reason), 0) < count}
    return frozenset(op for op, _ in before) - helped - opaque


def _with_integer_form(graph: Graph, model: QuantizedModel) -> Graph:
    """Return `graph` with quantized operators in the ONNX form that the model requests."""
    from graphport.quantization.export_form import to_export_form

    return graph if model.report is None else to_export_form(graph, model.report.settings, model.exact)


def fold_shapes(graph: Graph) -> Graph | None:
    """Fold shape arithmetic with known results in a copy, which few formats support; `None` if there is none."""
    from graphport.passes.simplify import RESOLVE

    return _run_passes(graph, RESOLVE)


def fold_constants(graph: Graph) -> Graph | None:
    """Fold shape arithmetic and all nodes with constant operands in a copy; `None` if there are none."""
    from graphport.passes.simplify import COMPUTE

    return _run_passes(graph, COMPUTE)


def _run_passes(graph: Graph, passes: driver.PassList) -> Graph | None:
    twin = rewrite.copy(graph)
    is_done = any(outcome.done for outcome in driver.run(twin, passes))
    # In a graph built by hand, the facts of values are inferred by the passes.
    is_news = is_done or any(old.fact != new.fact for old, new in zip(graph.values(), twin.values(), strict=True))
    return twin if is_news else None


def apply_options(graph: Graph, options: Mapping[str, Any]) -> Graph:
    """Apply the `options` of a writer to a canonical graph: another batch size, fused operators, notes.

    Raises:
        DiagnosticError: SHAPE0005 the samples of the batch are not independent.
    """
    batch = options.get("batch")
    if batch is not None:
        from graphport.passes.rebatch import change_batch

        graph = change_batch(graph, int(batch))
    if options.get("optimize"):
        from graphport.passes.simplify import SIMPLIFY

        graph = rewrite.copy(graph)
        driver.run(graph, SIMPLIFY)
    if options.get("qdq"):
        from graphport.formats.pytorch.rules.binding import QDQ

        graph = rewrite.copy(graph)
        graph.notes[QDQ] = True
    return graph
