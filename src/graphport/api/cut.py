"""Cutting parts out of models and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from graphport import formats
from graphport.api.load import as_model, load, normalize_shapes
from graphport.api.model import Model
from graphport.api.proven_write import Checking, verdict_of, write_proven
from graphport.api.run import Runner, first_run, runnable
from graphport.api.save import Export, export
from graphport.api.verify import expect, side
from graphport.comparison import compare_outputs
from graphport.comparison.precision import least_snr
from graphport.core import budget
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, raise_errors
from graphport.core.facts import TensorFact
from graphport.core.short_repr import short_repr
from graphport.ir import subgraph
from graphport.ir.lookup import Names
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.runtimes import memory
from graphport.runtimes.inputs import open_axes
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.api.model import ModelSource, Shapes
    from graphport.core.facts import Fact
    from graphport.formats.options import FileOptions
    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.document import Proof
    from graphport.proof.verdict import Verdict


@short_repr
@dataclass(frozen=True)
class CutReport:
    """The result of `cut_file`: facts of inputs and outputs by name, and the result of the proof.

    `added` lists inputs that the outputs need and that were not requested. `proof` has the results of the runtimes, or
    `None` if none ran; `skipped` is the reason why nothing was proven. `written` is the path of the written file, if
    any.
    """

    inputs: dict[str, Fact]
    outputs: dict[str, Fact]
    nodes: int
    added: list[str] = field(default_factory=list[str])
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    proof: Proof | None = None
    skipped: str | None = None
    written: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the proof; `not verified` if there is none."""
        return verdict_of(self.proof)

    @property
    def passed(self) -> bool:
        """Whether nothing was refuted."""
        return self.proof is None or self.skipped is not None or self.proof.passed


@check_arguments
def cut(
    model: ModelSource, inputs: Sequence[str] = (), outputs: Sequence[str] = (), *, shapes: Shapes | None = None
) -> Model:
    """Extract the subgraph between values of a model; weights are shared, nodes keep names, bodies and origins.

    Args:
        model: not changed; a raw model is cut in its dialect.
        inputs: the inputs of the subgraph: names of values, or of nodes for all of their operands. Further inputs
            of the
            model that the outputs need are appended, with a note among the findings.
        outputs: the outputs: names of values, or of nodes for all of their results; the model's outputs if empty.
        shapes: binds open dims of the inputs of the subgraph.

    Raises:
        DiagnosticError: EDIT0001 and EDIT0002 a name is unknown or ambiguous, EDIT0003 an output is also an input,
            EDIT0004 no output depends on a requested input; SHAPE0003 a shape does not fit.
    """
    model = as_model(model)
    return _cut(model, inputs, outputs, shapes)[0]


def cut_file(  # noqa: PLR0913  keywords, each documented
    source: str | Path,
    target: str | Path,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    *,
    format: str | None = None,
    shapes: Shapes | None = None,
    edition: str | None = None,
    program: str | None = None,
    checking: Checking | None = None,
    **options: Unpack[FileOptions],
) -> CutReport:
    """Read `source`, write the subgraph between some values to `target`, and prove that the file computes the same.

    A subgraph in the format of its source has the source's nodes unchanged. The test inputs of its proof are the values
    that a run of the whole model computes for its inputs, if such a run is possible.

    Args:
        source: a model in any format.
        target: the file to write.
        inputs: as for `cut`.
        outputs: as for `cut`.
        format: the target's format, if it does not follow from the file name.
        shapes: binds open dims of inputs of the model or of the subgraph.
        edition: of an NNEF source.
        program: of a PyTorch package, see `load`.
        checking: options of the proof.
        **options: of the writer.

    Raises:
        DiagnosticError: errors of `load` and `cut`; operators that the target does not support; RUN0010, a proof was
            required and is not possible.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    checking = checking or Checking()
    if checking.verify is not False:
        expect(formats.recognize(source), kind)
    whole, later = _read_whole(source, shapes or {}, edition=edition, program=program)
    model, added = _cut(whole, inputs, outputs, later)
    own_words = None
    if kind.name == whole.format and not shapes and options.keys() <= set(kind.faithful_choices):
        own_words = _cut_dialect_graph(load(source, raw=True, edition=edition, program=program), model, kind, options)
    given = None
    if checking.verify is not False:
        given, finding = _run_whole_model(whole, model)
        model.findings.extend(finding)
    became = write_proven(
        export(model, kind, options) if own_words is None else Export(own_words, options),
        target,
        kind,
        source=model,
        against=side("a", model, label=f"the part of {Path(source).name}", made_of=[whole]),
        checking=checking,
        inputs=given,
        least_snr=kind.least_snr(**options),
    )
    return CutReport(
        {name: value.fact for name, value in model.inputs.items()},
        {name: value.fact for name, value in model.outputs.items()},
        len(model.graph),
        added,
        [*model.findings, *became.findings],
        became.proof,
        became.skipped,
        became.written,
    )


def _read_whole(source: str | Path, shapes: Shapes, **options: Any) -> tuple[Model, Shapes]:
    """Read a model with the shapes of its inputs. Return it and the shapes of other values."""
    try:
        whole = load(source, **options)
    except DiagnosticError:
        # A TorchScript file without shapes cannot be read before they are bound.
        if not shapes:
            raise
        return load(source, shapes=shapes, **options), {}
    own = {name: shape for name, shape in shapes.items() if name in whole.inputs}
    others = {name: shape for name, shape in shapes.items() if name not in own}
    return (load(source, shapes=own, **options) if own else whole), others


@budget.fresh()
def _cut(model: Model, inputs: Sequence[str], outputs: Sequence[str], shapes: Shapes | None) -> tuple[Model, list[str]]:
    """Return the subgraph, and the names of its inputs that were not requested."""
    names = Names(model.graph)
    findings: list[Diagnostic] = []
    given = _named(names, inputs, _operands, findings)
    wanted = _named(names, outputs, lambda node: node.results, findings) if outputs else model.graph.outputs
    raise_errors(findings)
    found = subgraph.cut(wanted, given)
    findings += _unfit(found, given, wanted)
    raise_errors(findings)
    graph, asked = found.graph, {found.values[value] for value in given}
    added = [value.name for value in graph.inputs if value not in asked] if inputs else []
    if added:
        message = f"the outputs also depend on {', '.join(added)}: added as inputs"
        remedy = "to remove one, also pass the values that are computed from it as inputs"
        findings.append(Diagnostic("EDIT0006", message, None, remedy, Severity.NOTE))
    if shapes:
        bind_inputs(graph, normalize_shapes(shapes))
    if shapes or any(_is_partly_known(value.fact) for value, twin in found.values.items() if twin.is_input):
        # Facts derived from statically known values are invalid if the values are inputs now.
        Inference().graph(graph)
    return Model(graph, model.format, None, [*model.findings, *findings], model.versions), added


def _named(
    names: Names, asked: Sequence[str], values_of: Callable[[Node], list[Value]], findings: list[Diagnostic]
) -> list[Value]:
    found: dict[Value, None] = {}
    for name in names.split(asked):
        value = names.value(name)
        if value is not None:
            found[value] = None
        elif (node := names.node(name)) is not None:
            found.update(dict.fromkeys(values_of(node)))
        else:
            findings.append(names.missing(name, "value or node", [*names.values, *names.nodes]))
    return list(found)


def _operands(node: Node) -> list[Value]:
    return [value for value in subgraph.reads(node) if subgraph.is_input_dependent(value)]


def _unfit(found: subgraph.Subgraph, given: Sequence[Value], wanted: Sequence[Value]) -> list[Diagnostic]:
    """Return errors of a choice of inputs and outputs."""
    findings: list[Diagnostic] = []
    for value in wanted:
        if value in given:
            message = f"{value.name} is both an input and an output: nothing to compute"
            findings.append(Diagnostic("EDIT0003", message, value.origin, "choose outputs that depend on the inputs"))
    for value in given:
        if found.values[value].uses:
            continue
        reached = ", ".join(each.name for each in found.graph.inputs if each.uses) or "no input"
        message = f"no output depends on {value.name}, a requested input"
        if value.is_input and value.graph is not None and value.graph.parent is None:
            findings.append(
                Diagnostic(
                    "EDIT0005",
                    message,
                    value.origin,
                    "remove it from the requested inputs; it remains an input",
                    Severity.WARNING,
                )
            )
        else:
            findings.append(
                Diagnostic("EDIT0004", message, value.origin, f"choose inputs that the outputs depend on: {reached}")
            )
    return findings


def _is_partly_known(fact: Fact) -> bool:
    return isinstance(fact, TensorFact) and fact != fact.with_shape(fact.shape)


def _cut_dialect_graph(raw: Model, model: Model, kind: formats.Format, options: Mapping[str, Any]) -> Graph | None:
    """Cut the model in its dialect; return `None` if names are missing there or the writer does not support it."""
    try:
        found = _cut(raw, list(model.inputs), list(model.outputs), None)[0].graph
    except DiagnosticError:
        return None
    is_same = [v.name for v in found.inputs] == list(model.inputs) and len(found.outputs) == len(model.outputs)
    return found if is_same and kind.can_stay(found, **options) else None


@limits_runs
def _run_whole_model(whole: Model, model: Model) -> tuple[dict[str, Any] | None, list[Diagnostic]]:
    """Return the values of the subgraph's inputs in a run of the model, and an error if the outputs differ.

    The values are `None` if the model cannot be run within memory and time.
    """
    names = {value.name: value for value in whole.graph.values()}
    wanted = [names[name] for name in dict.fromkeys((*model.inputs, *model.outputs)) if name in names]
    if len(wanted) < len({*model.inputs, *model.outputs}):
        return None, []  # values inside a body have many instances in a run, or none
    observed = Model(subgraph.cut(wanted, whole.graph.inputs).graph, whole.format)
    ones, others = open_axes(observed.graph)
    sizes = dict.fromkeys((*ones, *others), 1)
    reason = memory.shortage(memory.needed(observed.graph, sizes))
    if reason or memory.excess(observed.graph, sizes, memory.size_of(whole.graph, whole.path)):
        return None, []
    try:
        _, found = first_run(observed)
        given = {name: found[name] for name in model.inputs}
        again = Runner(runnable(model), "auto").run(given)
    except DiagnosticError:
        return None, []
    comparison = compare_outputs({name: found[name] for name in model.outputs}, again)
    if (least := least_snr(model.graph)) is not None:
        comparison = comparison.within(least)
    wrong = next((each for each in comparison.outputs if not each.passed), None)
    if wrong is None:
        return given, []
    by = wrong.reason or f"by {wrong.max_abs:.3g}"
    message = f"the model and the extracted part compute different results for {wrong.name}: {by}"
    remedy = "report a bug unless the model has random operators"
    return given, [Diagnostic("EDIT0007", message, None, remedy, Severity.WARNING)]
