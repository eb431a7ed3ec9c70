"""Control flow of ONNX in TFLite, whose subgraphs are given all that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.captures import captured, close
from graphport.ops.dialects.tflite.emitting import shaped
from graphport.ops.pages.arithmetic import Add
from graphport.ops.pages.comparison import And, Less
from graphport.ops.pages.control.branches import If
from graphport.ops.pages.control.loops import Loop
from graphport.ops.pages.reshape import Concat, Identity, Unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Value

Lifted: TypeAlias = "tuple[Value, ...] | None"


def _copied(b: Builder, body: Graph) -> Graph:
    """A body to be edited, in which new values are called like none around it."""
    twin = rewrite.copy(body)
    if b.graph is not None:
        b.graph.share_names(twin)
    return twin


def _results(b: Builder) -> list[Fact]:
    node = b.before
    return [] if node is None else [TensorFact(None, None) if value is None else value.fact for value in node.outputs]


def _check_tensors(values: Sequence[Value]) -> None:
    if not all(isinstance(value.fact, TensorFact) for value in values):
        message = "sequences are given from graph to graph"
        raise UnsupportedError(message)


def _return(b: Builder, body: Graph, values: Sequence[Value]) -> None:
    """Let a body return each value once, and as one that it computes."""
    inside = Builder(b.inference, body, origin=b.origin, stem=b.stem)
    found: list[Value] = []
    for value in values:
        is_own = value.producer is not None and value.graph is body and value not in found
        found.append(value if is_own else inside(Identity, value))
    body.set_outputs(found)


@If.lift("tflite")
def lift_if(b: Builder, cond: Value, *, then_branch: Graph, else_branch: Graph) -> Lifted:
    """Both branches are given all that either reads."""
    branches = [_copied(b, each) for each in (then_branch, else_branch)]
    given = list(dict.fromkeys(value for branch in branches for value in captured(branch)))
    for branch in branches:
        _check_tensors([*given, *branch.outputs])
        _take_in(branch, given)
        _return(b, branch, branch.outputs)
    then_subgraph, else_subgraph = branches
    operands = [shaped(b, cond, ()) if b.dims(cond) else cond, *given]
    return b.word("IF", *operands, facts=_results(b), then_subgraph=then_subgraph, else_subgraph=else_subgraph)


def _take_in(body: Graph, given: Sequence[Value]) -> list[Value]:
    """An input for each of `given`, whether the body reads it or not."""
    places = close(body, list(given))
    made = dict(zip(places, body.inputs[len(body.inputs) - len(places) :], strict=True))
    for value in made.values():
        body.remove_input(value) if not value.uses else None
    found: list[Value] = []
    for place, value in enumerate(given):
        new = body.add_input(value.name, value.fact)
        old = made.get(place)
        if old is not None:
            old.replace_uses(new)
            if old in body.inputs:
                body.remove_input(old)
        found.append(new)
    return found


@Loop.lift("tflite")
def lift_loop(
    b: Builder, m: Value | None = None, cond: Value | None = None, *v_initial: Value | None, body: Graph
) -> Lifted:
    """States are the round, whether it goes on, what is carried, what has been stacked, and all that the body reads."""
    if any(value is None for value in v_initial):
        message = "a carried value is absent"
        raise UnsupportedError(message)
    carried = [value for value in v_initial if value is not None]
    twin = _copied(b, body)
    outside = list(captured(twin))
    stacked = twin.outputs[1 + len(carried) :]
    _check_tensors([*carried, *outside, *twin.outputs])
    most = b.constant(np.int64(np.iinfo(np.int64).max)) if m is None else m
    most = shaped(b, most, ()) if b.dims(most) else most
    begins = b.constant(np.bool_(True)) if cond is None else shaped(b, cond, ()) if b.dims(cond) else cond
    empty = [b.constant(np.zeros((0, *_known(value)), _dtype(value).numpy), _dtype(value)) for value in stacked]
    given = [b.constant(np.int64(0)), begins, *carried, *empty, most, *outside]
    inner = _round(b, twin, len(carried), stacked, most, outside)
    holds = Graph(b.graph.fresh("holds") if b.graph is not None else "holds")
    if b.graph is not None:
        b.graph.share_names(holds)
    states = [holds.add_input(value.name, value.fact) for value in inner.inputs]
    asks = Builder(b.inference, holds, origin=b.origin, stem=b.stem)
    holds.set_outputs([asks(And, asks(Less, states[0], states[2 + len(carried) + len(stacked)]), states[1])])
    own = _results(b)
    facts: list[Fact] = [value.fact for value in given[:2]]
    facts += [*own, *(value.fact for value in given[2 + len(own) :])]
    results = b.word("WHILE", *given, facts=facts, cond_subgraph=holds, body_subgraph=inner)
    return results[2 : 2 + len(own)]


def _round(
    b: Builder, twin: Graph, carried: int, stacked: Sequence[Value], most: Value, outside: Sequence[Value]
) -> Graph:
    """The body as a subgraph of all states."""
    inside = Builder(b.inference, twin, origin=b.origin, stem=b.stem)
    sums = [
        twin.add_input(f"{value.name}_rows", TensorFact(_dtype(value), (OPEN, *_known(value)))) for value in stacked
    ]
    limit = twin.add_input(most.name, most.fact)
    rest = _take_in(twin, outside)
    number, goes_on, *results = twin.inputs[0], *twin.outputs[: 1 + carried]
    rows = [
        inside(Concat, total, inside(Unsqueeze, value, inside.constant(np.array([0]))), axis=0)
        for total, value in zip(sums, stacked, strict=True)
    ]
    following = inside(Add, number, inside.constant(np.int64(1)))
    goes_on = shaped(inside, goes_on, ()) if inside.dims(goes_on) else goes_on
    _return(b, twin, [following, goes_on, *results, *rows, limit, *rest])
    return twin


def _dtype(value: Value) -> DType:
    dtype = value.fact.dtype if isinstance(value.fact, TensorFact) else None
    if dtype is None:
        message = "the type of a stacked value is not known"
        raise UnsupportedError(message)
    return dtype


def _known(value: Value) -> tuple[int, ...]:
    dims = value.fact.shape if isinstance(value.fact, TensorFact) else None
    found = tuple(n for n in dims or () if isinstance(n, int))
    if dims is None or len(found) != len(dims):
        message = "the shape of a stacked value must be known"
        raise UnsupportedError(message)
    return found
