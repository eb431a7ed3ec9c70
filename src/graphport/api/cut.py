"""Cutting parts out of models and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from graphport import formats
from graphport.api.load import load
from graphport.api.model import Model
from graphport.api.run import Runner, first_run, runnable
from graphport.api.save import Stated, stated_for
from graphport.api.verify import expect, side
from graphport.api.written import Checking, verdict_of, write_proven
from graphport.comparison import compare_outputs
from graphport.comparison.precision import least_snr
from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, raise_errors
from graphport.core.facts import TensorFact
from graphport.ir import part
from graphport.ir.lookup import Names
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.runtimes import memory
from graphport.runtimes.inputs import open_axes
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.api.model import Shapes
    from graphport.core.facts import Fact
    from graphport.formats.options import FileOptions
    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.document import Proof
    from graphport.proof.verdict import Verdict


@dataclass(frozen=True)
class CutReport:
    """What `cut_file` wrote: facts of inputs and outputs by name, and whether the file computes what the whole does.

    `added` are inputs that nobody named and the outputs need. `proof` is what witnesses said, `None` if nobody was
    asked; `skipped` says why nothing was proven. `written` is the file that there is now, if there is one.
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


def cut(
    model: Model, inputs: Sequence[str] = (), outputs: Sequence[str] = (), *, shapes: Shapes | None = None
) -> Model:
    """The part of a model between some of its values; weights are shared, nodes keep names, bodies and origins.

    Args:
        model: not changed; a raw one is cut in its own words.
        inputs: what the part is given: names of values, or of nodes for all that they read. What else the outputs need
            of the model's inputs is added behind them, with a note among the findings.
        outputs: what it returns: names of values, or of nodes for all that they compute; the model's own if empty.
        shapes: binds open extents of the inputs of the part.

    Raises:
        DiagnosticError: EDIT0001 and EDIT0002 a name is none or that of several, EDIT0003 an output is given,
            EDIT0004 no output depends on a value that is to be given; SHAPE0003 a shape does not fit.
    """
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
    """Read `source`, write the part of it between some values to `target`, and prove that the file computes the part.

    A part in the format of its source has the source's nodes as they are. It is proven with what its inputs are in a
    run of the whole, where one can be made.

    Args:
        source: a model in any format.
        target: where to.
        inputs: as for `cut`.
        outputs: as for `cut`.
        format: the target's format, if its name does not say it.
        shapes: binds open extents, of inputs of the model or of the part.
        edition: of an NNEF source.
        program: of a package of PyTorch's, see `load`.
        checking: what is to be proven.
        **options: of the writer.

    Raises:
        DiagnosticError: what `load` and `cut` raise; what the target cannot say; RUN0010, a proof was demanded and
            there is none.
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    checking = checking or Checking()
    if checking.verify is not False:
        expect(formats.recognize(source), kind)
    whole = load(source, edition=edition, program=program)
    own = {name: shape for name, shape in (shapes or {}).items() if name in whole.inputs}
    later = {name: shape for name, shape in (shapes or {}).items() if name not in own}
    if own:
        whole = load(source, edition=edition, program=program, shapes=own)
    model, added = _cut(whole, inputs, outputs, later)
    own_words = None
    if kind.name == whole.format and not shapes and options.keys() <= set(kind.faithful_choices):
        own_words = _in_own_words(load(source, raw=True, edition=edition, program=program), model, kind, options)
    given = None
    if checking.verify is not False:
        given, finding = _numbers(whole, model)
        model.findings.extend(finding)
    became = write_proven(
        stated_for(model, kind, options) if own_words is None else Stated(own_words, options),
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


@budget.fresh()
def _cut(model: Model, inputs: Sequence[str], outputs: Sequence[str], shapes: Shapes | None) -> tuple[Model, list[str]]:
    """The part, and the names of inputs that nobody named."""
    names = Names(model.graph)
    findings: list[Diagnostic] = []
    given = _named(names, inputs, _operands, findings)
    wanted = _named(names, outputs, lambda node: node.results, findings) if outputs else model.graph.outputs
    raise_errors(findings)
    found = part.cut(wanted, given)
    findings += _unfit(found, given, wanted)
    raise_errors(findings)
    graph, asked = found.graph, {found.values[value] for value in given}
    added = [value.name for value in graph.inputs if value not in asked] if inputs else []
    if added:
        message = f"the outputs also depend on {', '.join(added)}: the part takes that, too"
        remedy = "name values behind it, too, to be rid of it"
        findings.append(Diagnostic("EDIT0006", message, None, remedy, Severity.NOTE))
    if shapes:
        bind_inputs(graph, shapes)
    if shapes or any(_is_partly_known(value.fact) for value, twin in found.values.items() if twin.is_input):
        # What followed from numbers that are given now is not known any more.
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
    return [value for value in part.reads(node) if part.is_input_dependent(value)]


def _unfit(found: part.Part, given: Sequence[Value], wanted: Sequence[Value]) -> list[Diagnostic]:
    """What is wrong with a choice of values."""
    findings: list[Diagnostic] = []
    for value in wanted:
        if value in given:
            message = f"{value.name} is given and wanted: nothing is left to compute"
            findings.append(Diagnostic("EDIT0003", message, value.origin, "name values behind those that are given"))
    for value in given:
        if found.values[value].uses:
            continue
        reached = ", ".join(each.name for each in found.graph.inputs if each.uses) or "no input"
        message = f"no output depends on {value.name}, which is to be given"
        if value.is_input and value.graph is not None and value.graph.parent is None:
            findings.append(Diagnostic("EDIT0005", message, value.origin, "it stays an input", Severity.WARNING))
        else:
            findings.append(Diagnostic("EDIT0004", message, value.origin, f"the outputs depend on {reached}"))
    return findings


def _is_partly_known(fact: Fact) -> bool:
    return isinstance(fact, TensorFact) and fact != fact.with_shape(fact.shape)


def _in_own_words(raw: Model, model: Model, kind: formats.Format, options: Mapping[str, Any]) -> Graph | None:
    """The same part of a model as it was read, if the names say the same there and its writer takes it."""
    try:
        found = _cut(raw, list(model.inputs), list(model.outputs), None)[0].graph
    except DiagnosticError:
        return None
    is_same = [v.name for v in found.inputs] == list(model.inputs) and len(found.outputs) == len(model.outputs)
    return found if is_same and kind.can_stay(found, **options) else None


@limits_runs
def _numbers(whole: Model, model: Model) -> tuple[dict[str, Any] | None, list[Diagnostic]]:
    """What the inputs of a part are in a run of the whole, if that can be made; and whether its outputs are, too."""
    names = {value.name: value for value in whole.graph.values()}
    wanted = [names[name] for name in dict.fromkeys((*model.inputs, *model.outputs)) if name in names]
    if len(wanted) < len({*model.inputs, *model.outputs}):
        return None, []  # within a body: a run has many of them, or none
    observed = Model(part.cut(wanted, whole.graph.inputs).graph, whole.format)
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
    message = f"the whole computes another {wrong.name} than the part of it: {by}"
    return given, [Diagnostic("EDIT0007", message, None, "a model that draws numbers does", Severity.WARNING)]
