"""Run two models on equal inputs and compare their values."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.api.load import as_model
from graphport.api.model import Model
from graphport.api.run import first_run, run, runnable
from graphport.comparison import Comparison, compare_outputs
from graphport.comparison.first_difference import Search
from graphport.comparison.layouts import bring_into_order
from graphport.comparison.limits import Limits
from graphport.comparison.pairs import originals, pairs
from graphport.comparison.stream import Stream, Unanswered
from graphport.conversion.legalize import legalize
from graphport.core.argument_types import check_arguments
from graphport.core.diagnostics import Diagnostic, DiagnosticError, raise_errors
from graphport.core.facts import TensorFact
from graphport.core.progress import stage
from graphport.core.short_repr import short_repr
from graphport.ir import rewrite
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.proof.side import paired
from graphport.runtimes.inputs import checked, named_inputs
from graphport.runtimes.run_limits import limits_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from graphport.api.model import Inputs, ModelSource
    from graphport.comparison import Difference
    from graphport.core.diagnostics import Span
    from graphport.ir.graph import Graph, Value


@short_repr
@dataclass(frozen=True, eq=False)
class FoundDifference:
    """The first node of a model whose result differs from another model, with the smallest differing subgraphs.

    The subgraphs `a` and `b` take `inputs` and return one output, `value`, in which `b` differs. If `is_beyond` is
    false, no single node exceeds the tolerance, and `node` contributes most to the final difference.
    """

    node: str
    """Its name, or that of its first result where it has none."""
    operator: str
    value: str
    a: Model
    b: Model
    inputs: dict[str, Any]
    difference: Difference
    origin: Span | None = None
    is_beyond: bool = True
    notes: tuple[str, ...] = field(default=())

    @property
    def sentence(self) -> str:
        """Description of the difference for users."""
        what = self.difference.reason or f"by {self.difference.max_abs:.3g}"
        if not self.is_beyond:
            return (
                "no single node exceeds the tolerance; the largest "
                f"contribution is from {self.operator} {self.node} ({what})"
            )
        return f"the first node with a different result is {self.operator} {self.node}: {self.value} differs {what}"

    def __str__(self) -> str:
        return self.sentence


@limits_runs
@check_arguments
def compare(
    a: ModelSource,
    b: ModelSource,
    inputs: Inputs | None = None,
    *,
    backend: str = "auto",
    every_value: bool = False,
    limits: Limits | None = None,
) -> Comparison:
    """Run two models on equal inputs and compare the outputs of `b` with the outputs of `a`.

    Args:
        a: the expected model.
        b: the actual model; its inputs are paired with those of `a` by name, else by position.
        inputs: by the names of `a`, or as for `run`; random if `None`.
        backend: see `run`.
        every_value: compare all values that both models compute under one name, in the order of `b`. They are not all
            in memory at once.
        limits: tolerances.
    """
    a, b = as_model(a), as_model(b)
    if every_value:
        given = first_run(a, backend)[0] if inputs is None else named_inputs(a.graph, inputs)
        return compared_values(a, b, given, backend, limits or Limits())
    if inputs is None:
        given, first = first_run(a, backend)
    else:
        given = named_inputs(a.graph, inputs)
        first = run(a, given, backend=backend)
    return compared(a, first, b, given, backend, limits)


def compared(
    a: Model, first: Mapping[str, Any], b: Model, given: Mapping[str, Any], backend: str, limits: Limits | None = None
) -> Comparison:
    """`b`, run on `given`, held against `first`, which `a` computed from it."""
    with _input_differences(a, b):
        second = run(b, paired(given, a.graph, b.graph), backend=backend)
    measured = (limits or Limits()).difference
    return compare_outputs(
        {n: first[n] for n in a.outputs}, {n: second[n] for n in b.outputs}, originals(b.graph), measured
    )


@limits_runs
@check_arguments
def find_difference(
    a: ModelSource,
    b: ModelSource,
    inputs: Inputs | None = None,
    *,
    limits: Limits | None = None,
    backend: str = "auto",
    other: str | None = None,
    seconds: float | None = None,
) -> FoundDifference | None:
    """Find the first node of `b` that computes a different result from the same operands as in `a`.

    Both models are computed in slices, and each value of `b` from the values of `a`. A difference is then reduced to
    the smallest subgraphs of both models that still differ.

    Args:
        a: the expected model.
        b: the actual model; values are paired by name, or by their names before a conversion.
        inputs: by the names of `a`, or as for `run`; random if `None`.
        limits: tolerances.
        backend: the backend for both models; see `run`.
        other: the backend for `b`, if it differs.
        seconds: time limit; unlimited if `None`.

    Returns:
        The difference; `None` if all paired values are equal.

    Raises:
        DiagnosticError: `a` does not run.
        TimeoutError: no difference is found within `seconds`.
    """
    a, b = as_model(a), as_model(b)
    deadline = None if seconds is None else time.monotonic() + seconds
    given = first_run(a, backend)[0] if inputs is None else named_inputs(a.graph, inputs)
    first = _concrete(a, given)
    with _input_differences(a, b):
        second = _concrete(b, paired(given, a.graph, b.graph))
    values = pairs(first[0], second[0], outputs_first=True)
    backends = backend, other or backend
    added = bring_into_order(first[0], second[0], values, first[1], second[1], backends)
    search = Search(
        first[0],
        second[0],
        values,
        first[1],
        second[1],
        limits or Limits(),
        *backends,
        deadline=deadline,
    )
    found = search.run()
    if found is None:
        return None
    *_, last = [node for node in found.nodes if node not in added] or (found.value.producer,)
    name, operator = ("", "") if last is None else (last.name or last.results[0].name, last.op)
    return FoundDifference(
        name,
        operator,
        found.value.name,
        Model(found.a, a.format, None, [], a.versions),
        Model(found.b, b.format, None, [], b.versions),
        found.inputs,
        found.difference,
        None if last is None else last.origin,
        found.is_beyond,
        tuple(f"{name} is random" for name in search.random),
    )


def compared_values(
    a: Model,
    b: Model,
    given: Mapping[str, Any],
    backend: str,
    limits: Limits,
    belonging: Callable[[Graph, Graph], dict[Value, Value]] = pairs,
) -> Comparison:
    """Compare each value of `b` with the value of `a` that `belonging` pairs it with, in the order of `a`."""
    first = _concrete(a, given)
    with _input_differences(a, b):
        second = _concrete(b, paired(given, a.graph, b.graph))
    values = belonging(first[0], second[0])
    stream = Stream(first[0], second[0], values, first[1], second[1], backend_a=backend, backend_b=backend)
    found: dict[Value, Difference] = {}
    with stage("comparing values", len(values), "values") as spent:
        for step in stream:
            for each in () if isinstance(step, Unanswered) else step:
                found[each.b] = limits.difference(each.a.name, each.x, each.y, other=each.b.name)
            spent.done = len(found)
    for value in second[0].outputs:
        if value in values and value not in found:
            x, y = first[1].get(values[value].name), second[1].get(value.name)
            found[value] = limits.difference(values[value].name, x, y, other=value.name)
    order = {value: place for place, value in enumerate(first[0].values())}
    ordered = tuple(found[value] for value in sorted(found, key=lambda value: order[values[value]]))
    return Comparison(tuple(found[value] for value in second[0].outputs if value in found), ordered)


_INPUT_CODES = frozenset(["RUN0006", "RUN0007", "RUN0008"])
"""Codes of inputs that do not fit a model."""


@contextmanager
def _input_differences(a: Model, b: Model) -> Generator[None]:
    """Report differences between the inputs of `a` and `b` if the inputs of `a` do not fit `b`.

    Raises:
        DiagnosticError: RUN0014; other errors of the block.
    """
    try:
        yield
    except DiagnosticError as error:
        differences = _list_input_differences(a.graph, b.graph)
        if not differences or not all(finding.code in _INPUT_CODES for finding in error.diagnostics):
            raise
        message = f"the inputs of the models differ: {'; '.join(differences)}"
        remedy = "compare models with equal inputs, or change the inputs of one: graphport edit --help"
        raise DiagnosticError(Diagnostic("RUN0014", message, None, remedy)) from error


def _list_input_differences(a: Graph, b: Graph) -> list[str]:
    counterparts = paired({value.name: value for value in a.inputs}, a, b)
    differences = [
        f"the first model has no {value.name} ({value.fact})"
        for value in b.inputs
        if value.name not in counterparts and value.storage is None
    ]
    declared = {value.name: value for value in b.inputs}
    for name, value in counterparts.items():
        if name not in declared:
            differences.append(f"the second model has no {name} ({value.fact})")
        elif str(declared[name].fact) != str(value.fact):
            label = value.name if name == value.name else f"{value.name} / {name}"
            differences.append(f"{label} is {value.fact} in one model and {declared[name].fact} in the other")
    return differences


def _concrete(model: Model, given: Mapping[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """Return the canonical model for the inputs' shapes, and the inputs converted to the declared types."""
    arrays = checked(runnable(model), given)
    graph = rewrite.copy(model.graph)
    shapes = {
        value.name: arrays[value.name].shape
        for value in graph.inputs
        if isinstance(value.fact, TensorFact) and hasattr(arrays[value.name], "shape")
    }
    bind_inputs(graph, shapes)
    graph, findings = legalize(graph, in_place=True)
    raise_errors(findings)
    Inference().graph(graph)
    return graph, arrays
