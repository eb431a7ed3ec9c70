"""Writing models."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Unpack

from graphport import formats
from graphport.api.foreign import foreign
from graphport.api.model import Model, QuantizedModel
from graphport.api.staging import staged
from graphport.conversion.hooks import optimize
from graphport.conversion.legalize import legalize
from graphport.conversion.lift import lift
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, raise_errors
from graphport.core.replacing import replacing
from graphport.ir import rewrite
from graphport.passes import driver
from graphport.passes.fuse_expressions import without_expressions
from graphport.proof.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.formats.options import WriteOptions
    from graphport.ir.graph import Graph


class SaveReport(list[Diagnostic]):
    """The findings of `save`. The file is unverified: `convert` and `verify` prove what it computes."""

    verdict: ClassVar[Verdict] = Verdict.NOT_VERIFIED


def save(model: Model, path: str | Path, *, format: str | None = None, **options: Unpack[WriteOptions]) -> SaveReport:
    """Write a model without a proof; the format is `format`, else that of the name. A raw model keeps its format.

    Returns:
        Findings: what a common reader of the format rejects. The report's `verdict` is `not verified`.

    Raises:
        DiagnosticError: LEG0002 for everything that the format cannot say; nothing is written then.
    """
    kind = formats.by_name(path, format)
    kind.check_choices(options)
    graph = model.graph
    if model.is_raw and model.format == kind.name and not options.keys() & set(kind.preparations):
        return SaveReport(kind.write(graph, path, **options))
    if model.format == kind.name and not options and kind.copy_unchanged(graph, path):
        return SaveReport()
    stated = stated_for(model, kind, options)
    if not isinstance(model, QuantizedModel):
        return SaveReport([*stated.findings, *kind.write(stated.graph, path, **stated.options)])
    # What belongs together is seen together.
    with staged(path, kind) as place:
        findings = place.write(stated.graph, kind, stated.options)
        write_scales(model, kind, place.path)
        place.accept()
    return SaveReport([*stated.findings, *findings])


def write_scales(model: Model, kind: formats.Format, path: Path) -> None:
    """Write the table of scales that a file of ncnn has beside it, or the grids that tools read beside a real model."""
    if not isinstance(model, QuantizedModel):
        return
    if model.scales is not None and kind.name == "ncnn":
        from graphport.formats.ncnn import write_table

        write_table(path.with_suffix(".table"), model.scales)
    if model.report is not None and kind.name == "onnx":
        from graphport.quantization.written import beside

        found = beside(model.graph, model.report.settings)
        if found is not None:
            with replacing(path.with_suffix(found[0])) as file:
                file.write(found[1].encode())


def to_onnx(model: Model) -> Any:
    """`model` as an `onnx.ModelProto`.

    Raises:
        DiagnosticError: LEG0001 for nodes that have no canonical form and belong to no ONNX domain.
    """
    from graphport.formats.onnx import to_proto

    kind = formats.FORMATS["onnx"]
    return to_proto(lifted_for(model, kind))


class Stated(NamedTuple):
    """A model in the words of a format, what its writer is to be told, and what there is to say of these words."""

    graph: Graph
    options: Mapping[str, Any]
    findings: Sequence[Diagnostic] = ()


def stated_for(model: Model, kind: formats.Format, options: Mapping[str, Any]) -> Stated:
    """`model` in the words that a format has for it.

    Raises:
        DiagnosticError: LEG0002 for everything that it cannot say.
    """

    def lifted(dialect: str) -> Graph:
        is_whole, newest = not options.get("allow_fragments"), options.get("ir_opset")
        return lifted_for(model, kind, is_whole=is_whole, newest=newest, dialect=dialect, options=options)

    if isinstance(model, QuantizedModel):
        # Its grids are those of the format.
        options = _with_flavour(model, kind, options)
        return Stated(lifted(kind.dialects_with(**options)[0]), options)
    return Stated(*kind.settled(lifted, options, model.versions if model.format == kind.name else {}))


def _with_flavour(model: QuantizedModel, kind: formats.Format, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """`options`, with the words that the target of `model` reads where they leave that open."""
    from graphport.quantization.targets import TARGETS

    target = None if model.report is None else TARGETS.get(model.report.settings.target)
    if target is None or target.flavour is None or options.get("flavour") or kind.name not in target.formats:
        return options
    return {**options, "flavour": target.flavour}


@budget.fresh()
def lifted_for(
    model: Model,
    kind: formats.Format,
    *,
    is_whole: bool = True,
    newest: int | None = None,
    dialect: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Graph:
    """`model` in the words of a format; unless it is to be whole, with canonical operators where there are none.

    What `options` of the writer ask for ahead of it is done: another batch, operators put together.
    """
    graph, findings = legalize(model.graph, keep=foreign(model.graph) if kind.name == "onnx" else ())
    raise_errors(findings)
    graph = fitted(without_expressions(graph), options)
    if target := kind.dialect if dialect is None else dialect:
        stated, findings = lift(graph, target, newest=newest)
        for prepared in (resolved, computed):
            twin = prepared(graph) if findings else None
            if twin is not None:
                stated, findings = lift(twin, target, newest=newest)
        if is_whole:
            raise_errors(findings)
        graph = stated
        if options.get("optimize"):
            optimize(graph, target)
    elif kind.name == "onnx" and isinstance(model, QuantizedModel):
        graph = _with_wanted_integers(graph, model)
    return remove_unused_constants(graph)


def _with_wanted_integers(graph: Graph, model: QuantizedModel) -> Graph:
    """`graph` with integers said as the model wants them in ONNX."""
    from graphport.quantization.written import as_written

    return graph if model.report is None else as_written(graph, model.report.settings, model.exact)


def resolved(graph: Graph) -> Graph | None:
    """A copy without the arithmetic on shapes whose results are known, if any: few formats have words for it."""
    from graphport.passes.simplify import RESOLVE

    return _done(graph, RESOLVE)


def computed(graph: Graph) -> Graph | None:
    """A copy without that arithmetic, and without what is computed from constants alone, if there is any."""
    from graphport.passes.simplify import COMPUTE

    return _done(graph, COMPUTE)


def _done(graph: Graph, passes: driver.PassList) -> Graph | None:
    twin = rewrite.copy(graph)
    is_done = any(outcome.done for outcome in driver.run(twin, passes))
    # In a graph that is made by hand, it is the passes that find what is known of its values.
    is_news = is_done or any(old.fact != new.fact for old, new in zip(graph.values(), twin.values(), strict=True))
    return twin if is_news else None


def fitted(graph: Graph, options: Mapping[str, Any]) -> Graph:
    """A canonical graph as `options` of a writer ask for it: of another batch, or with operators put together.

    Raises:
        DiagnosticError: SHAPE0005 the items of the batch do not stay apart.
    """
    batch = options.get("batch")
    if batch is not None:
        from graphport.passes.rebatch import change_batch

        graph = change_batch(graph, int(batch))
    if options.get("optimize"):
        from graphport.passes.simplify import SIMPLIFY

        graph = rewrite.copy(graph)
        driver.run(graph, SIMPLIFY)
    return graph
