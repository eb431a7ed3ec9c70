"""Joining two models into one If: the layout of `decoder_model_merged.onnx` of optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.api.run import Runner, first_run, runnable
from graphport.comparison.limits import Limits
from graphport.comparison.precision import least_snr
from graphport.core.diagnostics import Diagnostic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite, states, subgraph
from graphport.ir.graph import Graph, Node, Value
from graphport.passes.journal import Journal
from graphport.passes.merge_duplicates import merge_constants

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.api.model import Model
    from graphport.core.dims import Dim

_PAST = ("past_key_values.", "past.")
"""Beginnings of the names of inputs with the cache; the outputs of the cache begin with `present.`."""


def merge_branches(a: Graph, b: Graph, flag: str, findings: list[Diagnostic]) -> Graph:
    """Return a graph of one If that computes `b` where the input `flag` is true, else `a`; the graphs are not changed.

    Inputs are those of `a`, the others of `b`, and `flag`, a boolean of shape [1]. Outputs are those of `a`. Equal
    constants are stored once. A dim of an input that differs in `a` and `b` becomes open. An output `present.X` that
    `b` lacks is its input `past_key_values.X`.
    """
    graph = Graph(
        a.name, opsets={name: max(g.opsets.get(name, 0) for g in (a, b)) for name in {**a.opsets, **b.opsets}}
    )
    graph.extents = a.extents.copy()
    for name, symbol in b.extents.declared.items():
        graph.extents.declared.setdefault(name, symbol)
    inputs: dict[str, Value] = {}
    for value in [*a.inputs, *b.inputs]:
        known = inputs.get(value.name)
        if known is None:
            inputs[value.name] = graph.adopt_input(value.copy_detached())
        else:
            _widen(graph, known, value, findings)
    for name in [*inputs, *(value.name for value in a.outputs)]:
        if name == flag:
            message = f"{flag} is an input or output of a model"
            findings.append(Diagnostic("EDIT0008", message, graph.origin, "choose another name for the condition"))
        graph.reserve(name)
    condition = graph.add_input(flag, TensorFact(DType.BOOL, (1,)))
    results = [Value(value.name, value.fact, origin=value.unasked_origin) for value in a.outputs]
    append_branches(graph, inputs, condition, results, (b, a), _matching_outputs(a, b, findings))
    return graph


def append_branches(
    graph: Graph,
    inputs: Mapping[str, Value],
    condition: Value,
    results: list[Value],
    branches: tuple[Graph, Graph],
    returned: list[Value] | None = None,
) -> None:
    """Append an If that computes the first of `branches` where `condition` is true, else the second.

    Branches read `inputs` by name, and constants, of which equal ones are stored once. `returned` are values of the
    first branch, by default its outputs.
    """
    then, other = branches
    for value in results:
        graph.reserve(value.name)
    twins = {value: inputs[value.name] for branch in branches for value in branch.inputs}
    for value in [*other.constants, *then.constants]:
        twins[value] = graph.adopt_constant(_renamed(graph, value))
    bodies = {
        "else_branch": _body(graph, "no_past", other, list(other.outputs), twins),
        "then_branch": _body(graph, "with_past", then, list(then.outputs) if returned is None else returned, twins),
    }
    graph.append(Node("If", [condition], results, dict(reversed(bodies.items())), name="branch"))
    graph.set_outputs(results)
    subgraph.rename_duplicates(graph)
    merge_constants(graph, Journal())


def _widen(graph: Graph, known: Value, other: Value, findings: list[Diagnostic]) -> None:
    """Open the dims of an input whose sizes differ between both models."""
    a, b = known.fact, other.fact
    if not isinstance(a, TensorFact) or not isinstance(b, TensorFact) or a.shape is None or b.shape is None:
        return
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape):
        message = f"{known.name} is {a} in the first model and {b} in the second"
        findings.append(Diagnostic("EDIT0013", message, other.origin, "change one model with graphport edit"))
        return

    def dim(axis: int, x: Dim, y: Dim) -> Dim:
        return x if x == y else graph.extents.fresh(f"{known.name}_{axis}")

    known.fact = a.with_shape([dim(axis, x, y) for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True))])


def _matching_outputs(a: Graph, b: Graph, findings: list[Diagnostic]) -> list[Value]:
    """Return the value of `b` for each output of `a`."""
    outputs, inputs = ({value.name: value for value in values} for values in (b.outputs, b.inputs))
    found: list[Value] = []
    for value in a.outputs:
        past = [f"{begin}{value.name.removeprefix('present.')}" for begin in _PAST]
        matches = [outputs.get(value.name), *(inputs.get(name) for name in past)]
        match = next((each for each in matches if each is not None), None)
        if match is None:
            message = f"the second model has no output {value.name}"
            remedy = f"outputs: {', '.join(outputs)}; rename them with graphport edit --rename"
            findings.append(Diagnostic("EDIT0013", message, value.origin, remedy))
        found.append(value if match is None else match)
    for name in outputs.keys() - {value.name for value in a.outputs}:
        message = f"the first model has no output {name}"
        remedy = f"remove it with graphport edit --remove-output {name}"
        findings.append(Diagnostic("EDIT0013", message, outputs[name].origin, remedy))
    return found


def _body(graph: Graph, name: str, of: Graph, outputs: list[Value], outside: dict[Value, Value]) -> Graph:
    """Return the nodes of a graph as a body that reads the values `outside` of it."""
    twins, body = dict(outside), Graph(name)
    for node in of:
        results = [None if value is None else _renamed(graph, value) for value in node.outputs]
        body.append(rewrite.copy_node(node, twins, results))
        pairs = zip(node.outputs, results, strict=True)
        twins.update((old, new) for old, new in pairs if old is not None and new is not None)
    body.set_outputs([_returned(graph, body, twins.get(value, value)) for value in outputs])
    return body


def _returned(graph: Graph, body: Graph, value: Value) -> Value:
    # ONNX requires that a body computes its outputs.
    if value.graph is body:
        return value
    return body.append(Node("Identity", [value], [Value(graph.fresh(value.name), value.fact)])).output


def _renamed(graph: Graph, value: Value) -> Value:
    twin = value.copy_detached()
    twin.name = graph.fresh(value.name)
    states.unmark(twin)
    return twin


def differences(a: Model, b: Model, model: Model, flag: str) -> Iterator[Diagnostic]:
    """Compare each branch with its model, on inputs that the model runs on.

    Raises:
        DiagnosticError: a model does not run.
    """
    runner = Runner(runnable(model), "auto")
    for side, is_past in ((a, False), (b, True)):
        given, expected = first_run(side)
        sizes = _sizes(model, given)
        unused = {name: _zeros(value, sizes) for name, value in model.inputs.items() if name not in given}
        found = runner.run(unused | given | {flag: np.array([is_past])})
        limits = Limits(least_snr=least_snr(side.graph))
        for name, array in expected.items():
            compared = limits.difference(name, array, found[name])
            if not compared.passed:
                by = compared.reason or f"by {compared.max_abs:.3g}"
                message = (
                    f"{name} differs from {side.path or side.graph.name} where {flag} is {str(is_past).lower()}: {by}"
                )
                yield Diagnostic("EDIT0014", message)


def _sizes(model: Model, given: Mapping[str, np.ndarray]) -> dict[Dim, int]:
    """Return the sizes of the dims of the inputs `given`."""
    found: dict[Dim, int] = {}
    for name, array in given.items():
        fact = model.inputs[name].fact
        if isinstance(fact, TensorFact) and fact.shape is not None:
            found.update(zip(fact.shape, array.shape, strict=True))
    return found


def _zeros(value: Value, sizes: Mapping[Dim, int]) -> np.ndarray:
    """Return zeros for an input that is not read; a run refuses them if its type or shape is not known."""
    fact = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, ())
    dtype = np.dtype(np.float32) if fact.dtype is None else fact.dtype.numpy
    return np.zeros([dim if isinstance(dim, int) else sizes.get(dim, 1) for dim in fact.shape or ()], dtype)
