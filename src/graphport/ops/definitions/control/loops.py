"""A body run again and again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, maximum, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, UNKNOWN, Fact, SequenceFact, TensorFact, named
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.control.joins import join
from graphport.ops.shapes import axis_index, same_dim
from graphport.ops.types import ALL_13, BOOL, INT64, SCALAR, Body, Tensor, Types

B = Annotated[Tensor, Types("B", BOOL)]
I = Annotated[Tensor, Types("I", INT64)]  # noqa: E741  the letter of the specification
V = Annotated[Any, Types("V", ALL_13, "any")]

_CARRIED = "\0carried"


def infer_loop_facts(
    body: Body, fixed: Sequence[Fact], initial: Sequence[Fact], skipped: int
) -> tuple[list[Fact], list[Fact]]:
    """Return the facts of carried values that hold in every iteration, and the facts of the body's results.

    The body takes `fixed` and the carried values, or the reverse order if `skipped` is 0. It returns `skipped` values,
    then the carried values, then others.

    Raises:
        ShapeError: the body returns too few values.
    """
    carried = list(initial)

    def run() -> list[Fact]:
        return body(*fixed, *carried) if skipped else body(*carried, *fixed)

    returned = run()
    if len(returned) < skipped + len(carried):
        message = f"the body returns {len(returned)} values, {skipped + len(carried)} are needed"
        raise ShapeError(message, "expected the loop condition, then each loop-carried value")
    # A dim that changes becomes open, and an open dim does not change again: two iterations fix the dims, a third the
    # ranks.
    for _ in range(3):
        joined = [join(a, b) for a, b in zip(carried, returned[skipped:], strict=False)]
        again = [named(fact, f"{_CARRIED}.{i}") for i, fact in enumerate(joined)]
        if again == carried:
            return carried, returned
        carried = again
        returned = run()
    unranked: list[Fact] = [TensorFact(f.dtype, None) if isinstance(f, TensorFact) else UNKNOWN for f in carried]
    carried = unranked
    return carried, run()


def open_dims(fact: Fact) -> Fact:
    """Replace each dim of `fact` that depends on the iteration number by an open dim."""
    if isinstance(fact, SequenceFact):
        return SequenceFact(open_dims(fact.element))
    if not isinstance(fact, TensorFact) or fact.shape is None or not any(map(_changes, fact.shape)):
        return fact
    return TensorFact(fact.dtype, tuple(OPEN if _changes(dim) else dim for dim in fact.shape))


def _changes(dim: Dim) -> bool:
    return isinstance(dim, Symbolic) and any(name.startswith(_CARRIED) for name in symbols(dim))


def stack_facts(fact: Fact, rounds: Dim, axis: int = 0) -> Fact:
    """Return the facts of the results of all iterations, stacked at `axis`; elements are unknown."""
    fact = open_dims(fact)
    if not isinstance(fact, TensorFact):
        return UNKNOWN
    if fact.shape is None:
        return TensorFact(fact.dtype, None)
    place = axis_index(axis, len(fact.shape) + 1)
    return TensorFact(fact.dtype, (*fact.shape[:place], rounds, *fact.shape[place:]))


def _loop_shape(
    m: TensorFact | None = None, cond: TensorFact | None = None, *v_initial: Fact | None, body: Body
) -> list[Fact]:
    # The body runs only while the condition holds.
    trip, on = TensorFact(DType.INT64, ()), TensorFact(DType.BOOL, (), (1,))
    carried, returned = infer_loop_facts(body, [trip, on], [fact or UNKNOWN for fact in v_initial], 1)
    starts = cond is None or cond.elements == (1,)
    goes_on = isinstance(returned[0], TensorFact) and returned[0].elements == (1,)
    rounds = maximum(m.elements[0], 0) if m is not None and m.elements and starts and goes_on else OPEN
    return [*map(open_dims, carried), *(stack_facts(fact, rounds) for fact in returned[1 + len(carried) :])]


@op(
    shape=_loop_shape,
    since=1,
    outputs=("*v_final_and_scan_outputs",),
    exactness="exact",
    ranks={"m": SCALAR, "cond": SCALAR},
)
def Loop(m: I | None = None, cond: B | None = None, *v_initial: V, body: Body) -> tuple[V, ...]:
    """Run `body(iteration, condition, *carried)` until the condition is false or `m` iterations are done.

    The body returns the next condition, the carried values, then values that are stacked over the iterations. After
    zero iterations a stacked value has its declared shape, with 0 for open dims.

    Shapes: m [], cond []; results: carried values, then [iterations, *s] for each stacked [*s].

    Raises:
        ShapeError: the body returns too few values.

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
        return (*carried, *(np.stack(values) for values in zip(*rounds, strict=True)))
    return (*carried, *(_no_rounds(fact) for fact in body.facts[1 + len(carried) :]))


def _no_rounds(fact: Fact, axis: int = 0) -> Tensor:
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        message = "a loop with 0 iterations stacks values of unknown element type"
        raise ShapeError(message)
    dims = [dim if isinstance(dim, int) else 0 for dim in fact.shape or ()]
    place = axis_index(axis, len(dims) + 1)
    return np.empty((*dims[:place], 0, *dims[place:]), fact.dtype.numpy)


def _scan_shape(
    *initial_state_and_scan_inputs: Fact | None,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> list[Fact]:
    states = len(initial_state_and_scan_inputs) - num_scan_inputs
    if num_scan_inputs < 1 or states < 0:
        message = f"num_scan_inputs is {num_scan_inputs}, the operands are {len(initial_state_and_scan_inputs)}"
        raise ShapeError(message, "at least one operand is scanned")
    axes = _per_scanned(scan_input_axes, num_scan_inputs, "scan_input_axes")
    _directions(_per_scanned(scan_input_directions, num_scan_inputs, "scan_input_directions"))
    facts = [fact or UNKNOWN for fact in initial_state_and_scan_inputs]
    length: Dim | None = None
    entries: list[Fact] = []
    for number, (fact, axis) in enumerate(zip(facts[states:], axes, strict=True)):
        found, entry = _slice_of(fact, axis)
        entries.append(entry)
        if found is not None:
            length = found if length is None else same_dim(length, found, f"steps of scanned operand {number}")
    carried, returned = infer_loop_facts(body, entries, facts[:states], 0)
    scans = returned[states:]
    out_axes = _per_scanned(scan_output_axes, len(scans), "scan_output_axes")
    _directions(_per_scanned(scan_output_directions, len(scans), "scan_output_directions"))
    rounds = OPEN if length is None else length
    ends = [stack_facts(fact, rounds, axis) for fact, axis in zip(scans, out_axes, strict=True)]
    return [*map(open_dims, carried), *ends]


def _per_scanned(given: tuple[int, ...] | None, wanted: int, name: str) -> tuple[int, ...]:
    if given is None:
        return (0,) * wanted
    if len(given) != wanted:
        message = f"{name} has {len(given)} entries, {wanted} are needed"
        raise ShapeError(message, "expected one for each scanned value")
    return given


def _directions(directions: tuple[int, ...]) -> None:
    if not {0, 1}.issuperset(directions):
        message = f"the directions are {directions}"
        raise ShapeError(message, "0 is forward, 1 is backward")


def _slice_of(fact: Fact, axis: int) -> tuple[Dim | None, Fact]:
    """Return the number of iterations over a scanned operand, and the fact of one slice."""
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return None, TensorFact(fact.dtype if isinstance(fact, TensorFact) else None, None)
    place = axis_index(axis, len(fact.shape))
    return fact.shape[place], fact.with_shape([*fact.shape[:place], *fact.shape[place + 1 :]])


@op(shape=_scan_shape, since=9, outputs=("*final_state_and_scan_outputs",), exactness="exact")
def Scan(
    *initial_state_and_scan_inputs: V,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> tuple[V, ...]:
    """Run `body(*states, *slices)` for each slice of the last `num_scan_inputs` operands along their axes.

    The body returns the states, then values that are stacked over the iterations. Direction 1 iterates or stacks
    backwards.

    Shapes: states any; scanned operands [*s] with equal length at their axes; results: states, then stacked values.

    Raises:
        ShapeError: the numbers of iterations differ, or an attribute lacks an element per scanned value.

    Source: ONNX Scan-25.
    """
    states = list(initial_state_and_scan_inputs[: len(initial_state_and_scan_inputs) - num_scan_inputs])
    axes = _per_scanned(scan_input_axes, num_scan_inputs, "scan_input_axes")
    backward = _per_scanned(scan_input_directions, num_scan_inputs, "scan_input_directions")
    scanned = [
        np.flip(np.moveaxis(x, axis, 0), 0) if is_reversed else np.moveaxis(x, axis, 0)
        for x, axis, is_reversed in zip(initial_state_and_scan_inputs[len(states) :], axes, backward, strict=True)
    ]
    rounds: list[list[Any]] = []
    for entries in zip(*scanned, strict=True):
        returned = body(*states, *map(np.asarray, entries))
        states, scans = returned[: len(states)], returned[len(states) :]
        rounds.append(scans)
    facts = body.facts[len(states) :]
    out_axes = _per_scanned(scan_output_axes, len(facts), "scan_output_axes")
    if not rounds:
        return (*states, *(_no_rounds(fact, axis) for fact, axis in zip(facts, out_axes, strict=True)))
    out_backward = _per_scanned(scan_output_directions, len(facts), "scan_output_directions")
    columns = list(zip(*rounds, strict=True))
    ends = [
        np.stack(values[::-1] if is_reversed else values, axis)
        for values, axis, is_reversed in zip(columns, out_axes, out_backward, strict=True)
    ]
    return (*states, *ends)
