"""Joining two models into one: outputs of the first are inputs of the second."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from graphport import formats
from graphport.api.load import as_model, load
from graphport.api.merge_branches import differences, merge_branches
from graphport.api.model import Model
from graphport.api.proven_write import Checking, verdict_of, write_proven
from graphport.api.run import Runner, first_run, runnable
from graphport.api.save import export
from graphport.api.verify import side, size_of_files
from graphport.comparison.limits import Limits
from graphport.comparison.precision import least_snr
from graphport.core import budget
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, raise_errors
from graphport.core.facts import TensorFact
from graphport.core.short_repr import short_repr
from graphport.ir import rewrite, states, subgraph
from graphport.ir.lookup import Names
from graphport.ops.infer import Inference
from graphport.runtimes import memory
from graphport.runtimes.inputs import free_sizes
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.api.model import ModelSource
    from graphport.formats.options import WriteOptions
    from graphport.ir.graph import Graph, Value
    from graphport.proof.document import Proof
    from graphport.proof.verdict import Verdict


@short_repr
@dataclass(frozen=True)
class MergeReport:
    """Result of `merge_files`; `connected` maps inputs of the second model to outputs of the first."""

    model: Model
    connected: dict[str, str]
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
def merge(
    a: ModelSource, b: ModelSource, connect: Mapping[str, str] | None = None, *, branch: str | None = None
) -> Model:
    """Return one model that computes `a`, and `b` on results of `a`; weights of both are shared.

    Its inputs are those of `a` and the unconnected inputs of `b`. Its outputs are the unconnected outputs of `a` and
    all outputs of `b`. A name of `b` that also occurs in `a` gets a numeric suffix.

    With `branch`, it computes `b` where the boolean input of that name is true, else `a`, as a merged decoder does with
    `use_cache_branch`: see `graphport.api.merge_branches`.

    Args:
        a: the model that is computed first.
        b: the model that is computed second.
        connect: inputs of `b` by outputs (or other values) of `a`; those of equal names if `None`, or the only ones.
        branch: the name of the input that selects a model.

    Raises:
        DiagnosticError: EDIT0001 a name is unknown, EDIT0008 the name `branch` is in use, EDIT0013 nothing is
            connected, or types or shapes differ.
    """
    a, b = as_model(a), as_model(b)
    return _merged(a, b, connect, branch)[0]


def merge_files(  # noqa: PLR0913  keywords, each documented
    a: str | Path,
    b: str | Path,
    target: str | Path,
    connect: Mapping[str, str] | None = None,
    *,
    branch: str | None = None,
    format: str | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    program: str | None = None,
    states: bool = False,
    checking: Checking | None = None,
    **options: Unpack[WriteOptions],
) -> MergeReport:
    """Read two files, merge them, write `target`, and prove that it computes the composition.

    Arguments and errors as for `merge` and `convert`. `shapes` binds inputs of the first file (`x` or `a.x`) and of the
    second (`b.x`).
    """
    kind = formats.by_name(target, format)
    kind.check_choices(options)
    checking = checking or Checking()
    bound = shapes or {}
    ours = {name.removeprefix("a."): dims for name, dims in bound.items() if not name.startswith("b.")}
    first = load(a, shapes=ours or None, program=program, states=states)
    second = _load_second(b, bound, program=program, states=states)
    model, connected = _merged(first, second, connect, branch)
    if checking.verify is not False:
        model.findings.extend(_compared(first, second, model, connected, branch))
        raise_errors(model.findings)
    became = write_proven(
        export(model, kind, options),
        target,
        kind,
        source=model,
        against=side(
            "a", model, label=f"{Path(b).name} {'or' if branch else 'behind'} {Path(a).name}", made_of=[first, second]
        ),
        checking=checking,
        least_snr=kind.least_snr(**options),
    )
    findings = [*model.findings, *became.findings]
    return MergeReport(model, connected, findings, became.proof, became.skipped, became.written)


def _load_second(
    path: str | Path, shapes: Mapping[str, Sequence[int | str]], *, program: str | None, states: bool
) -> Model:
    """Load the second model; remedies name its inputs as `b.x`."""
    theirs = {name[2:]: dims for name, dims in shapes.items() if name.startswith("b.")}
    try:
        return load(path, shapes=theirs or None, program=program, states=states)
    except DiagnosticError as error:
        found = [replace(x, help=x.help and x.help.replace("--input ", "--input b.")) for x in error.diagnostics]
        raise DiagnosticError(*found) from error


@budget.fresh()
def _merged(a: Model, b: Model, connect: Mapping[str, str] | None, branch: str | None) -> tuple[Model, dict[str, str]]:
    first, second = runnable(a), runnable(b)
    findings: list[Diagnostic] = []
    if branch is not None:
        graph, connected = merge_branches(first, second, branch, findings), dict[str, str]()
        raise_errors(findings)
    else:
        graph, connected = _chain(first, second, connect)
    inference = Inference()
    inference.graph(graph)
    raise_errors(inference.findings)
    model = Model(graph, a.format, None, [*a.findings, *b.findings, *inference.findings], a.versions)
    return model, connected


def _chain(a: Graph, other: Graph, connect: Mapping[str, str] | None) -> tuple[Graph, dict[str, str]]:
    """Return a graph that computes `other` on results of `a`, and the connected names."""
    graph, findings = rewrite.copy(a), list[Diagnostic]()
    connected = dict(connect) if connect else _by_name(graph, other)
    twins = _connected(graph, other, connected, findings)
    raise_errors(findings)
    _append(graph, other, twins)
    used = set(connected)
    kept = [value for value in graph.outputs if value.name not in used]
    graph.set_outputs([*kept, *(twins[value] for value in other.outputs)])
    _keep_names(graph, other, twins)
    for domain, version in other.opsets.items():
        graph.opsets[domain] = max(version, graph.opsets.get(domain, 0))
    return graph, connected


def _by_name(a: Graph, b: Graph) -> dict[str, str]:
    """Outputs and inputs of one name, or the only ones."""
    inputs = {value.name for value in b.inputs}
    found = {value.name: value.name for value in a.outputs if value.name in inputs}
    if not found and len(a.outputs) == 1 and len(b.inputs) == 1:
        return {a.outputs[0].name: b.inputs[0].name}
    return found


def _connected(a: Graph, b: Graph, names: Mapping[str, str], findings: list[Diagnostic]) -> dict[Value, Value]:
    """Values of `a` by inputs of `b`."""
    known, others = Names(a), Names(b)
    inputs = {value.name: value for value in b.inputs}
    found: dict[Value, Value] = {}
    if not names:
        message = "no output of the first model has the name of an input of the second"
        remedy = f"outputs: {', '.join(v.name for v in a.outputs)}; inputs: {', '.join(inputs)}"
        findings.append(Diagnostic("EDIT0013", message, None, remedy))
    for name, wanted in names.items():
        value, given = known.value(name), inputs.get(wanted)
        if value is None:
            findings.append(known.missing(name, "value", [v.name for v in a.outputs]))
        if given is None:
            findings.append(others.missing(wanted, "input", inputs))
        if value is None or given is None:
            continue
        if not _is_compatible(value, given):
            message = f"{name} is {value.fact}, but {wanted} expects {given.fact}"
            findings.append(Diagnostic("EDIT0013", message, given.origin, "change one model with graphport edit"))
        found[given] = value
    return found


def _is_compatible(value: Value, given: Value) -> bool:
    old, new = value.fact, given.fact
    if not isinstance(old, TensorFact) or not isinstance(new, TensorFact):
        return type(old) is type(new)
    if old.dtype is not None and new.dtype is not None and old.dtype is not new.dtype:
        return False
    if old.shape is None or new.shape is None:
        return True
    pairs = zip(old.shape, new.shape, strict=False)
    same = all(x == y for x, y in pairs if isinstance(x, int) and isinstance(y, int))
    return len(old.shape) == len(new.shape) and same


def _append(graph: Graph, other: Graph, twins: dict[Value, Value]) -> None:
    """Append `other` to a graph; `twins` maps its inputs, and afterwards all its values, to values of the graph."""
    for value in other.inputs:
        if value not in twins:
            twins[value] = graph.adopt_input(_renamed(graph, value))
    for value in other.constants:
        twins[value] = graph.adopt_constant(_renamed(graph, value))
    for node in other:
        results = [None if value is None else _renamed(graph, value) for value in node.outputs]
        pairs = zip(node.outputs, results, strict=True)
        graph.append(rewrite.copy_node(node, twins, results))
        twins.update((old, new) for old, new in pairs if old is not None and new is not None)
    subgraph.rename_duplicates(graph)


def _keep_names(graph: Graph, other: Graph, twins: Mapping[Value, Value]) -> None:
    """Restore the names of inputs and outputs of `other` where only inner values use them now."""
    holders = {value.name: value for value in graph.values()}
    for value in [*other.inputs, *other.outputs]:
        twin, holder = twins[value], holders.get(value.name)
        is_public = twin.is_input or twin.is_output
        if is_public and holder is not None and not holder.is_input and not holder.is_output:
            rewrite.swap_names(twin, holder)
            holders[twin.name], holders[holder.name] = twin, holder


def _renamed(graph: Graph, value: Value) -> Value:
    twin = value.copy_detached()
    twin.name = graph.fresh(value.name)
    if twin.name != value.name:
        states.unmark(twin)
    return twin


@limits_runs
def _compared(a: Model, b: Model, model: Model, connected: Mapping[str, str], branch: str | None) -> list[Diagnostic]:
    """Compare the merged model with a run of both models; return a diagnostic if they differ."""
    try:
        sizes = free_sizes(model.graph)
        needed = memory.needed(model.graph, sizes)
        reason = memory.shortage(needed) or memory.excess(model.graph, sizes, size_of_files(a, b))
        if reason is not None:
            return [_unheld(reason)]
        if branch is not None:
            return list(differences(a, b, model, branch))
        given, together = first_run(model)
        runner = Runner(runnable(Model(_returning(a, connected), a.format)), "auto")
        first = runner.run({name: given[name] for name in a.inputs})
        names = dict(zip(_free(b, connected), list(given)[len(a.inputs) :], strict=True))
        second = Runner(runnable(b), "auto").run(
            {other: first[name] for name, other in connected.items()} | {n: given[each] for n, each in names.items()}
        )
    except DiagnosticError as error:
        return [_unheld(error.diagnostics[0].message)]
    limits = Limits(least_snr=least_snr(model.graph))
    outputs = list(model.outputs)[len(model.graph.outputs) - len(b.graph.outputs) :]
    for name, label in zip(b.outputs, outputs, strict=True):
        alone, whole = second[name], together[label]
        found = limits.difference(name, alone, whole)
        if not found.passed:
            by = found.reason or f"by {found.max_abs:.3g}"
            message = f"{name} of the merged model differs from the models run in sequence: {by}"
            return [
                Diagnostic(
                    "EDIT0014", message, None, "report a bug unless the model has random operators", Severity.WARNING
                )
            ]
    return []


def _unheld(reason: str) -> Diagnostic:
    message = f"not compared with both models: {reason}"
    return Diagnostic("EDIT0012", message, None, None, Severity.WARNING)


def _free(b: Model, connected: Mapping[str, str]) -> list[str]:
    return [name for name in b.inputs if name not in connected.values()]


def _returning(a: Model, connected: Mapping[str, str]) -> Graph:
    """The first model with all that is connected among its outputs."""
    graph = rewrite.copy(runnable(a))
    names = {value.name: value for value in graph.values()}
    for name in connected:
        if names[name] not in graph.outputs:
            graph.add_output(names[name])
    return graph
