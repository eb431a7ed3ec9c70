"""Control flow, sequences and optionals."""

from __future__ import annotations

from itertools import count
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, UNKNOWN, Fact, SequenceFact, TensorFact, named
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_13, BOOL, CLASSIC, INT64, Body, Sequence, Tensor, Types

B = Annotated[Tensor, Types("B", BOOL)]
I = Annotated[Tensor, Types("I", INT64)]  # noqa: E741  the letter of the specification
V = Annotated[Any, Types("V", ALL_13, "any")]
T = Annotated[Tensor, Types("T", CLASSIC)]
S = Annotated[Sequence, Types("S", CLASSIC, "sequence")]


def join(a: Fact, b: Fact) -> Fact:
    """What is true of a value that has either fact: dims that differ are open."""
    if isinstance(a, SequenceFact) and isinstance(b, SequenceFact):
        return SequenceFact(join(a.element, b.element))
    if not isinstance(a, TensorFact) or not isinstance(b, TensorFact):
        return a if a == b else UNKNOWN
    dtype = a.dtype if a.dtype is b.dtype else None
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorFact(dtype, None)
    shape: list[Dim] = [x if x == y else OPEN for x, y in zip(a.shape, b.shape, strict=True)]
    return TensorFact(dtype, tuple(shape), a.elements if a.elements == b.elements else None)


def _if_shape(cond: TensorFact, *, then_branch: Body, else_branch: Body) -> list[Fact]:
    chosen, other = then_branch(), else_branch()
    if len(chosen) != len(other):
        message = f"then_branch returns {len(chosen)} values, else_branch {len(other)}"
        raise ShapeError(message)
    if cond.elements is not None:
        return chosen if cond.elements[0] else other
    for number, (a, b) in enumerate(zip(chosen, other, strict=True)):
        if isinstance(a, TensorFact) and isinstance(b, TensorFact) and None not in (a.dtype, b.dtype) and a.dtype is not b.dtype:
            message = f"result {number} is {a.dtype} in then_branch and {b.dtype} in else_branch"
            raise ShapeError(message)
    return [join(a, b) for a, b in zip(chosen, other, strict=True)]


@op(shape=_if_shape, since=1, outputs=("*outputs",), exactness="exact")
def If(cond: B, *, then_branch: Body, else_branch: Body) -> tuple[V, ...]:
    """What one of two bodies returns; the other is not run.  Shapes: cond [] (or one element).

    Raises:
        ShapeError: the bodies return different numbers or types of values.

    Source: ONNX If-25.
    """
    return tuple(then_branch() if cond.reshape(-1)[0] else else_branch())


def _loop_shape(
    m: TensorFact | None = None, cond: TensorFact | None = None, *v_initial: Fact, body: Body
) -> list[Fact]:
    carried = list(v_initial)
    trip, on = TensorFact(DType.INT64, ()), TensorFact(DType.BOOL, ())
    returned = body(trip, on, *carried)
    if len(returned) < 1 + len(carried):
        message = f"the body returns {len(returned)} values for {len(carried)} carried ones and the condition"
        raise ShapeError(message)
    # A carried shape that changes is open from then on, and an open dim does not change any more: two rounds settle it,
    # a third one the ranks.
    for _ in range(3):
        joined = [join(a, b) for a, b in zip(carried, returned[1:], strict=False)]
        settled = [named(fact, f"{_CARRIED}.{i}") for i, fact in enumerate(joined)]
        if settled == carried:
            break
        carried = settled
        returned = body(trip, on, *carried)
    else:
        carried = [TensorFact(f.dtype, None) if isinstance(f, TensorFact) else f for f in carried]
        returned = body(trip, on, *carried)
    trips = m.elements[0] if m is not None and m.elements is not None and _always(cond) else OPEN
    scans = [_scanned(fact, OPEN if _stops(returned[0]) else trips) for fact in returned[1 + len(carried) :]]
    return [*(_opened(fact) for fact in carried), *scans]


def _always(cond: TensorFact | None) -> bool:
    return cond is None or cond.elements == (1,)


def _stops(cond: Fact) -> bool:
    return not (isinstance(cond, TensorFact) and cond.elements == (1,))


_CARRIED = "\0carried"


def _opened(fact: Fact) -> Fact:
    """The same with dims open that depend on the round."""
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return fact
    return TensorFact(fact.dtype, tuple(OPEN if _changes(dim) else dim for dim in fact.shape), fact.elements)


def _changes(dim: Dim) -> bool:
    return isinstance(dim, Symbolic) and any(name.startswith(_CARRIED) for name in symbols(dim))


def _scanned(fact: Fact, trips: Dim) -> Fact:
    fact = _opened(fact)
    if not isinstance(fact, TensorFact):
        return UNKNOWN
    return TensorFact(fact.dtype, None if fact.shape is None else (trips, *fact.shape))


@op(shape=_loop_shape, since=1, outputs=("*v_final_and_scan_outputs",), exactness="exact")
def Loop(m: I | None = None, cond: B | None = None, *v_initial: V, body: Body) -> tuple[V, ...]:
    """Runs `body(iteration, condition, *carried)` until its condition is false or `m` rounds are over.

    The body returns the next condition, the carried values, then values that are stacked over the rounds.

    Shapes: m [], cond []; results: carried values, then [rounds, *s] for each stacked [*s].

    Source: ONNX Loop-25.
    """
    carried = list(v_initial)
    going = True if cond is None else bool(cond.reshape(-1)[0])
    limit = None if m is None else int(m.reshape(-1)[0])
    rounds: list[list[Any]] = []
    for number in count():
        if not going or (limit is not None and number >= limit):
            break
        again, *rest = body(np.array(number, np.int64), np.array(going), *carried)
        carried, scans = rest[: len(carried)], rest[len(carried) :]
        rounds.append(scans)
        going = bool(np.reshape(again, -1)[0])
    if rounds:
        return (*carried, *(np.stack(stacked) for stacked in zip(*rounds, strict=True)))
    return (*carried, *(_no_rounds(fact) for fact in body.facts[1 + len(carried) :]))


def _no_rounds(fact: Fact) -> Tensor:
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        message = "a loop that runs no round stacks values of unknown type"
        raise ShapeError(message)
    dims = [dim if isinstance(dim, int) else 0 for dim in fact.shape or ()]
    return np.empty((0, *dims), fact.dtype.numpy)


def _sequence_shape(*inputs: TensorFact) -> SequenceFact:
    fact: Fact = inputs[0]
    for other in inputs[1:]:
        fact = join(fact, other)
    return SequenceFact(fact)


@op(shape=_sequence_shape, since=11, outputs=("output_sequence",), moves_data=True, exactness="exact")
def SequenceConstruct(*inputs: T) -> S:
    """The operands as a sequence.  Shapes: any.  Source: ONNX SequenceConstruct-11."""
    return list(inputs)
