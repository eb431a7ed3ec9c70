"""Reports on one model, or on two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.api.compare import compared_values
from graphport.api.load import as_model
from graphport.api.macs import with_activations, with_example
from graphport.api.model import QuantizedModel
from graphport.api.run import first_run, run
from graphport.comparison.correspondence import correspondence
from graphport.comparison.limits import Limits
from graphport.conversion.inspection import inspect
from graphport.conversion.legalize import legalize
from graphport.core import budget
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.short_repr import short_repr
from graphport.core.storage import ArrayStorage
from graphport.formats.archive import noted
from graphport.passes.journal import label
from graphport.quantization.optimise.costs import times_of
from graphport.quantization.record import dispatch_record, quantization_record
from graphport.reports import Report
from graphport.reports.model import GraphDocument
from graphport.reports.statistics import Budget, statistics
from graphport.runtimes.inputs import checked, named_inputs, random_inputs
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

    from graphport.api.model import Inputs, Model, ModelSource
    from graphport.ir.graph import Graph
    from graphport.passes.driver import Outcome
    from graphport.proof.document import Proof
    from graphport.quantization.dispatch import Decisions


@short_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Further results of a command for the report."""

    verb: str = "report"
    proof: Proof | None = None
    passes: Iterable[Outcome] = ()
    dispatch: Decisions | None = None
    latency: Mapping[str, Any] | None = None
    diagnostics: Iterable[Diagnostic] = ()


@budget.fresh()
@limits_runs
@check_arguments
def report(
    model: ModelSource,
    against: ModelSource | None = None,
    inputs: Inputs | None = None,
    *,
    backend: str = "auto",
    times: bool = False,
    findings: Findings | None = None,
) -> Report:
    """Return a report on `model`, as a document with views: `.html()`, `.svg()`, `.to_rows()`, and others.

    Args:
        model: not changed; a model in another dialect is reported in canonical operators.
        against: a second model to compare with, value by value, if it can be run.
        inputs: of the run, by the names of `model`. If `None`, they are random for two models, and one model is not
            run.
        backend: see `run`.
        times: include the times of nodes of `model` from ONNX Runtime's profile, on one thread, if it runs there.
        findings: further results.
    """
    model = as_model(model)
    against = None if against is None else as_model(against)
    inputs = None if inputs is None else named_inputs(model.graph, inputs)
    collected = findings or Findings()
    models = [model] if against is None else [model, against]
    sides = [GraphDocument(_canonical(each)) for each in models]
    documents = [_described(each, side) for each, side in zip(models, sides, strict=True)]
    found: dict[str, Any] = {}
    diagnostics = [*collected.diagnostics, *(finding for each in models for finding in each.findings)]
    try:
        if against is not None:
            found |= _compared(model, against, sides, inputs, backend)
        elif inputs is not None:
            _observe(model, inputs, backend, sides[0], documents[0])
    except DiagnosticError as error:
        if inputs is not None:
            raise
        found["notes"] = [f"the values were not compared: {error.diagnostics[0].message}"]
        diagnostics += error.diagnostics
    if times:
        found["times"] = _times(sides[0], inputs)
    if collected.proof is not None:
        found["proof"] = collected.proof.as_json()
    found["decisions"] = _decisions(collected.passes, sides)
    found |= _quantization(models, sides, collected)
    return Report.of(documents, **_named(models, collected.verb), diagnostics=dict.fromkeys(diagnostics), **found)


def _named(models: list[Model], verb: str = "report") -> dict[str, str]:
    names = [str(each.path.name if each.path is not None else each.graph.name) for each in models]
    return {"verb": verb, "title": " and ".join(names)}


def _canonical(model: Model) -> Graph:
    return legalize(model.graph)[0]


def _described(model: Model, side: GraphDocument) -> dict[str, Any]:
    found = with_example(inspect(side.graph, model.format, model.versions, has_coverage=False), side.graph)
    found = with_activations(found, side.graph)
    return side.with_file("" if model.path is None else model.path.name, found)


def _compared(
    model: Model, against: Model, sides: list[GraphDocument], inputs: Mapping[str, Any] | None, backend: str
) -> dict[str, Any]:
    """Return the paired values, and the differences between both models' values."""
    a, b = sides
    belonging = correspondence(a.graph, b.graph)
    found: dict[str, Any] = {"pairs": [[a.values[x], b.values[y]] for y, x in belonging.items()]}
    given = first_run(model, backend)[0] if inputs is None else inputs
    compared = compared_values(model, against, given, backend, Limits(), correspondence)
    names = [{value.name: number for value, number in side.values.items()} for side in sides]
    errors = [
        {"a": names[0][each.name], "b": names[1][each.other], **each.as_json()}
        for each in compared.values
        if each.name in names[0] and each.other in names[1]
    ]
    wrong = next((index for index, error in enumerate(errors) if not error["passed"]), None)
    place: dict[str, Any] = {} if wrong is None else {"first": [wrong]}
    if wrong is not None and compared.outputs and all(each.passed for each in compared.outputs):
        count = sum(not error["passed"] for error in errors)
        place["notes"] = [
            f"all outputs are equal; the {count} values that differ may have another layout, such as NHWC"
        ]
    return found | {"errors": errors, "outputs": [each.as_json() for each in compared.outputs], **place}


def _observe(
    model: Model, inputs: Mapping[str, Any], backend: str, side: GraphDocument, document: dict[str, Any]
) -> None:
    """Add the statistics of values in a run to the report."""
    answers = run(model, inputs, backend=backend, every_value=True)
    left = Budget(1 << 24)
    for value, index in side.values.items():
        array: np.ndarray[Any, Any] | None = answers.get(value.name)
        if array is None or value.storage is not None or not hasattr(array, "dtype") or array.dtype.kind not in "biuf":
            continue
        found = statistics(ArrayStorage(array), left)
        if found is not None:
            document["values"][index]["statistics"] = found


def _times(side: GraphDocument, inputs: Mapping[str, Any] | None) -> dict[str, float]:
    """Return microseconds by node index, from the times that ONNX Runtime's profile has by name."""
    names = {node.name: number for node, number in side.nodes.items() if node.name and node.graph is side.graph}
    found = times_of(side.graph, random_inputs(side.graph) if inputs is None else checked(side.graph, inputs), names)
    return {} if found is None else {str(names[name]): spent for name, spent in found.nodes.items()}


def _decisions(passes: Iterable[Outcome], sides: list[GraphDocument]) -> list[dict[str, Any]]:
    """Return the changes and skipped cases of each pass, with the node concerned, if it exists."""
    positions = [{label(node): number for node, number in side.nodes.items()} for side in sides]
    return [
        {
            "by": outcome.name,
            "done": is_done,
            "node": positions[0].get(note.node),
            "other": positions[-1].get(note.node) if len(positions) > 1 else None,
            "name": note.node,
            "text": note.text,
        }
        for outcome in passes
        for is_done, notes in ((True, outcome.done), (False, outcome.left))
        for note in notes
    ]


def _quantization(models: list[Model], sides: list[GraphDocument], findings: Findings) -> dict[str, Any]:
    """The grids of the last model, how they were found, and what stayed real; nothing where nothing is quantized."""
    last, side = models[-1], sides[-1]
    record = quantization_record(side.graph, last.report if isinstance(last, QuantizedModel) else None)
    documents = noted(last.graph)
    found: dict[str, Any] = {}
    if record is not None and (record["grids"] or record.get("report")):
        known = documents.quantization or {}
        previous: dict[str, Any] = record.get("report") or known.get("report") or {}
        names = [{value.name: number for value, number in side.values.items()} for side in sides]
        all_qparams = [{**row, **_numbered(row["value"], names)} for row in record["grids"]]
        found["quantization"] = {**previous, "grids": all_qparams, "latency": findings.latency}
    decided = documents.dispatch if findings.dispatch is None else dispatch_record(findings.dispatch)
    if decided:
        nodes = [{label(node).partition(" ")[2]: number for node, number in side.nodes.items()} for side in sides]
        found["dispatch"] = [
            {
                "node": nodes[0].get(row["node"]),
                "other": nodes[1].get(row["node"]) if len(nodes) > 1 else None,
                **{name: row[name] for name in ("operator", "place", "reason")},
                "name": row["node"],
            }
            for row in decided["nodes"]
        ]
    return found


def _numbered(name: str, numbers: list[dict[str, int]]) -> dict[str, int | None]:
    """Return the index of a value of that name in the first model and in the second."""
    return {"a": numbers[0].get(name), "b": numbers[1].get(name) if len(numbers) > 1 else None}
