"""OpenVINO's Range-1 and Range-4: exact for integers, float64 otherwise, and an error if undefined.

The definition is implemented twice: in unlimited integers for constants (`count`, `range_elements`), and in ONNX
operators for the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_less, maximum
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.openvino.rules.emitting import emitted_scalar
from graphport.ir.graph import Node, Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.generate import Constant, Range, constant_value
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import integers

Number = int | float

MOST_NUMBERS = 1 << 16
"""The longest constant range that is folded."""
_LONGEST = 1 << 63
_GENTLE = 1 << 20
"""Bound of step counts that are exact even if a runtime divides in floating point."""
_ROLES = ("start", "stop", "step")
_NARROW = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.UINT8, DType.UINT16, DType.UINT32})


def truncated(number: Number, dtype: DType) -> Number:
    """Convert an operand for the sum: truncated for integer types, else float64."""
    if isinstance(number, float) and not math.isfinite(number):
        message = f"an operand of Range is {number}"
        raise ShapeError(message, "all three must be finite")
    return math.trunc(number) if dtype.is_integer else float(number)


def wrapped(number: int, dtype: DType) -> int:
    """An integer in two's complement of the width of `dtype`."""
    field = number & ((1 << dtype.bits) - 1)
    return field - (1 << dtype.bits) if dtype.kind == "i" and field >> (dtype.bits - 1) else field


def count(start: Number, stop: Number, step: Number, dtype: DType) -> int:
    """Return the number of elements: `max(ceil((stop - start) / step), 0)` of truncated operands.

    Raises:
        ShapeError: the step is 0, possibly after truncation; or there are 2^63 elements or more.
    """
    if _vanishes(step, dtype):
        message = f"a step of {step} is 0 as {dtype}"
        raise ShapeError(message, "use a nonzero step")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        found = max(-((start - stop) // step), 0)
    else:
        quotient = (float(stop) - float(start)) / float(step)
        if not math.isfinite(quotient):
            message = f"the range from {start} to {stop} by {step} has 2^63 elements or more"
            raise ShapeError(message)
        found = max(math.ceil(quotient), 0)
    if found >= _LONGEST:
        message = f"the range from {start} to {stop} by {step} has {found} elements"
        raise ShapeError(message, "a tensor has less than 2^63 elements")
    return found


def _vanishes(step: Number, dtype: DType) -> bool:
    if isinstance(step, int):
        return wrapped(step, dtype) == 0
    with np.errstate(all="ignore"):
        return float(np.float64(step).astype(dtype.numpy)) == 0


def range_elements(start: Number, stop: Number, step: Number, dtype: DType) -> np.ndarray:
    """Return the elements from `start` up to and excluding `stop` in `dtype`."""
    begin, end, pace = (truncated(operand, dtype) for operand in (start, stop, step))
    length = count(begin, end, pace, dtype)
    if isinstance(begin, int) and isinstance(pace, int):
        return np.array([wrapped(begin + i * pace, dtype) for i in range(length)], dtype.numpy)
    return (float(begin) + np.arange(length, dtype=np.float64) * float(pace)).astype(dtype.numpy)


@lower("openvino", "opset1.Range")
def range_of_one_type(b: Builder, start: Value, stop: Value, step: Value) -> Value:
    """Range-1: operands and result have one type."""
    types = {fact.dtype for fact in _facts(start, stop, step) if fact.dtype is not None}
    if len(types) > 1:
        message = f"start, stop and step are {', '.join(sorted(map(str, types)))}"
        raise ShapeError(message, "Range of operation set 1 takes one type; Range of set 4 takes several")
    if not types:
        return b(Range, start, stop, step)
    return _range(b, (start, stop, step), types.pop())


@lower("openvino", "opset4.Range")
def range_of_type(b: Builder, start: Value, stop: Value, step: Value, *, output_type: DType | str | None) -> Value:
    """Range-4: operands of any types; the result has type `output_type`."""
    if not isinstance(output_type, DType):
        message = f"output_type is {output_type or 'dynamic'}"
        raise ShapeError(message, "use a numeric type")
    _facts(start, stop, step)
    return _range(b, (start, stop, step), output_type)


def differing_counts(node: Node) -> tuple[int, int] | None:
    """Return the two element counts of a Range-4 that its specification permits, if they differ.

    With an integer result, operands are truncated before counting (this rule), or `ceil((stop - start) / step)` is
    computed from the original operands (OpenVINO's plugins).
    """
    dtype = node.attributes.get("output_type")
    if node.op_type != "opset4.Range" or not isinstance(dtype, DType) or not dtype.is_integer or None in node.inputs:
        return None
    given = [_static_number(operand, dtype) for operand in node.operands]
    if len(given) != len(_ROLES) or not all(isinstance(each, int | float) for each in given):
        return None
    try:
        start, stop, step = (float(each) for each in given)  # type: ignore[arg-type]
        cast = count(*(truncated(each, dtype) for each in given), dtype)  # type: ignore[arg-type]
        formula = max(math.ceil((stop - start) / step), 0)
    except (ShapeError, ArithmeticError, ValueError):
        return None  # the rule refuses it
    return None if cast == formula else (cast, formula)


def _facts(*operands: Value) -> list[TensorFact]:
    """Return the facts of start, stop and step; unknown dtypes and shapes pass.

    Raises:
        ShapeError: one is no scalar, or no number.
    """
    found: list[TensorFact] = []
    for role, operand in zip(_ROLES, operands, strict=True):
        fact = operand.fact
        if not isinstance(fact, TensorFact):
            message = f"{role} is {fact}"
            raise ShapeError(message, "use a numeric type")
        if fact.shape is not None and fact.shape != ():
            message = f"{role} is a tensor of rank {len(fact.shape)}"
            raise ShapeError(message, "use a scalar")
        if fact.dtype is not None:
            _check_numeric(role, fact.dtype)
        found.append(fact)
    return found


def _check_numeric(role: str, dtype: DType) -> None:
    if not (dtype.is_integer or dtype.is_floating) or dtype.bits < 8:
        message = f"{role} is {dtype}"
        raise ShapeError(message, "use a numeric type of 8 bits or more")


def _range(b: Builder, operands: tuple[Value, Value, Value], dtype: DType) -> Value:
    _check_numeric("the result", dtype)
    given = [_static_number(operand, dtype) for operand in operands]
    known = [number for number in given if not isinstance(number, Symbolic | None)]
    if len(known) == len(given):
        start, stop, step = (truncated(number, dtype) for number in known)
        length = count(start, stop, step, dtype)
        if length <= MOST_NUMBERS:
            return b.constant(ArrayStorage(range_elements(start, stop, step, dtype), dtype))
    elif isinstance(given[2], int | float):
        # The step alone can be invalid for every run.
        pace = truncated(given[2], dtype)
        if _vanishes(pace, dtype):
            message = f"a step of {pace} is 0 as {dtype}"
            raise ShapeError(message, "use a nonzero step")
    made = _integral(b, operands, given, dtype) if dtype.is_integer else _floating(b, operands, dtype)
    made.fact = _result_fact(made, given, dtype)
    return made


def _static_number(operand: Value, dtype: DType) -> Number | Symbolic | None:
    """Return the static value of an operand."""
    fact = operand.fact
    if not isinstance(fact, TensorFact):
        return None
    if fact.elements:
        element = fact.elements[0]
        return element if isinstance(element, int) or dtype.is_integer else None
    if fact.reals:
        return fact.reals[0]
    storage = operand.storage
    if storage is None or storage.count != 1 or (operand.graph is not None and not operand.is_constant):
        return None
    return storage.numpy().reshape(()).item()


def _result_fact(made: Value, given: list[Number | Symbolic | None], dtype: DType) -> TensorFact:
    fact = made.fact if isinstance(made.fact, TensorFact) else TensorFact(dtype, (OPEN,))
    if any(number is None or (isinstance(number, float) and not dtype.is_integer) for number in given):
        return fact
    start, stop, step = (math.trunc(number) if isinstance(number, float) else number for number in given)
    if start is None or stop is None or not isinstance(step, int):
        return fact
    length: Dim = maximum(ceil_div(stop - start, step) if step > 0 else ceil_div(start - stop, -step), 0)
    if not isinstance(fact.shape, tuple) or fact.shape == (length,):
        return fact
    return TensorFact(dtype, (length,))


# In ONNX


def _integral(
    b: Builder, operands: tuple[Value, Value, Value], given: list[Number | Symbolic | None], dtype: DType
) -> Value:
    """Emit integer elements: truncate the operands, count in int64, and wrap to `dtype` last.

    n = max((stop - start) / step, rounded up, 0);  y = wrap(start + step * [0 … n-1])
    """
    emit = OpBuilder(b)
    if _is_gentle(operands, given):
        start, stop, step = (_as(emit, operand, DType.INT64) for operand in operands)
        return _as(emit, emit("Range", start, stop, step), dtype)
    bad: list[Value] = []
    start, stop, step = (_truncated(b, emit, operand, bad) for operand in operands)
    bad.append(emit("Equal", _as(emit, _as(emit, step.number, dtype), DType.INT64), 0))
    # A step of -2^63 has no absolute value in int64.
    step = _WideInteger(step.number, _steepest(emit, step))
    is_bad = _any(emit, bad)
    pace = emit("Where", emit("Or", is_bad, emit("Not", emit("Equal", step.side, 0))), 1, step.number)
    length, is_past = _length(emit, start.number, stop.number, pace)
    length, is_past = _count_wide(emit, (start, stop, step), length, is_past)
    steps = _steps(emit, length, emit("Or", is_bad, is_past))
    return _as(emit, emit("Add", start.number, emit("Mul", steps, step.number)), dtype)


@dataclass(frozen=True, slots=True)
class _WideInteger:
    """An integer of any size: its int64 value, and whether it is below (-1), in (0) or above (1) int64.

    A uint64 wraps around in int64; a float outside int64 is 0.
    """

    number: Value
    side: Value | None = None
    is_real: bool = False


def _steepest(emit: OpBuilder, step: _WideInteger) -> Value:
    least = emit("Where", emit("Less", step.number, 1 - _LONGEST), -1, 0)
    if step.side is None:
        return least
    # What came from uint64 is above int64, though it looks as if it were negative.
    return emit("Where", emit("Equal", step.side, 0), least, step.side)


def _count_wide(
    emit: OpBuilder, operands: tuple[_WideInteger, _WideInteger, _WideInteger], length: Value, is_past: Value
) -> tuple[Value, Value]:
    """Return the element count when an operand exceeds int64, and whether the count is unknown.

    If the end is on the wrong side, the range is empty; a step wider than int64 leaves at most one element.
    """
    start, stop, step = operands
    if step.side is None:
        return length, is_past
    is_wide = emit("Not", emit("Equal", step.side, 0))
    further, nearer = emit("Greater", stop.number, start.number), emit("Less", stop.number, start.number)
    way = emit("Sub", _as(emit, further, DType.INT64), _as(emit, nearer, DType.INT64))
    lost, unknown = emit("And", is_wide, _overflows(emit, start.number, stop.number)), None
    is_past = emit("And", is_past, emit("Not", is_wide))
    if start.side is not None or stop.side is not None:
        low, high = (0 if each.side is None else each.side for each in (start, stop))
        distance = emit("Sub", high, low)
        differs = emit("Not", emit("Equal", distance, 0))
        way = emit("Where", differs, emit("Sign", distance), way)
        lost = emit("Or", lost, differs)
        if start.side is not None and stop.side is not None and (start.is_real or stop.is_real):
            unknown = emit("And", emit("Not", emit("Equal", start.side, 0)), emit("Not", differs))
    turn = emit("Where", is_wide, step.side, emit("Sign", step.number))
    is_there = emit("Greater", emit("Mul", way, turn), 0)
    length = emit("Where", is_there, emit("Where", is_wide, 1, length), 0)
    lost = emit("And", is_there, emit("Or", is_past, lost))
    return length, lost if unknown is None else emit("Or", lost, unknown)


def _overflows(emit: OpBuilder, start: Value, stop: Value) -> Value:
    """Emit a test of whether `stop - start` overflows int64."""
    way = emit("Sub", stop, start)
    conditions = emit("Greater", stop, start), emit("Less", way, 0), emit("Less", stop, start), emit("Greater", way, 0)
    return emit("Or", emit("And", *conditions[:2]), emit("And", *conditions[2:]))


def _is_gentle(operands: tuple[Value, Value, Value], given: list[Number | Symbolic | None]) -> bool:
    """Whether ONNX's Range computes the exact count: integers, a small static step, no difference above 64 bits."""
    start, _, step = given
    types = [operand.fact.dtype for operand in operands if isinstance(operand.fact, TensorFact)]
    if any(dtype is None or not dtype.is_integer or dtype is DType.UINT64 for dtype in types):
        return False
    if not isinstance(step, int) or not 0 < abs(step) <= _GENTLE:
        return False
    return all(dtype in _NARROW for dtype in types) or start == 0


def _as(emit: OpBuilder, value: Value, dtype: DType) -> Value:
    is_it = value.dtype is dtype
    return value if is_it else emit("Cast", value, to=dtype)


def _truncated(b: Builder, emit: OpBuilder, operand: Value, bad: list[Value]) -> _WideInteger:
    """Truncate an operand to an integer; append a flag to `bad` if it is not finite."""
    dtype = operand.dtype
    if dtype is DType.UINT64:
        found = _as(emit, operand, DType.INT64)
        return _WideInteger(found, emit("Where", emit("Less", found, 0), 1, 0))
    if dtype is not None and dtype.is_integer:
        return _WideInteger(_as(emit, operand, DType.INT64))
    number, zero = _as(emit, operand, DType.FLOAT64), b.constant(np.float64(0))
    bad.append(emit("Not", emit("Equal", emit("Sub", number, number), zero)))
    above = emit("GreaterOrEqual", number, b.constant(np.float64(_LONGEST)))
    below = emit("Less", number, b.constant(np.float64(-_LONGEST)))
    side = emit("Sub", _as(emit, above, DType.INT64), _as(emit, below, DType.INT64))
    fits = emit("Equal", emit("Sub", number, number), zero)
    inside = emit("And", fits, emit("Not", emit("Or", above, below)))
    return _WideInteger(emit("Cast", emit("Where", inside, number, zero), to=DType.INT64), side, is_real=True)


def _any(emit: OpBuilder, claims: list[Value]) -> Value:
    found = claims[0]
    for claim in claims[1:]:
        found = emit("Or", found, claim)
    return found


def _length(emit: OpBuilder, start: Value, stop: Value, step: Value) -> tuple[Value, Value]:
    """Return `max(ceil((stop - start) / step), 0)` without computing the difference, and whether it exceeds int64.

    Let a = start / step, b = stop / step, truncated, with remainders p, q of the dividends' signs: the count is b - a
    plus 0, 1 or 2, determined by the remainders.
    """
    # -2^63 divided by -1 is not in int64, and ends the process: backwards by one is forwards with both ends exchanged.
    is_back = emit("Equal", step, -1)
    start, stop = emit("Where", is_back, stop, start), emit("Where", is_back, start, stop)
    step = emit("Where", is_back, 1, step)
    first, last = emit("Div", start, step), emit("Div", stop, step)
    p, q = emit("Sub", start, emit("Mul", first, step)), emit("Sub", stop, emit("Mul", last, step))
    # Divided by a negative step, the order of the rests turns round.
    sign = emit("Sign", step)
    low, high, pace = emit("Mul", p, sign), emit("Mul", q, sign), emit("Mul", step, sign)
    more = emit("Cast", emit("Greater", high, low), to=DType.INT64)
    twice = emit("And", emit("Less", low, 0), emit("Greater", high, emit("Add", pace, emit("Min", low, 0))))
    difference = emit("Sub", last, first)
    is_past = emit("And", emit("Greater", last, first), emit("Less", difference, 0))
    length = emit("Add", difference, emit("Add", more, emit("Cast", twice, to=DType.INT64)))
    return emit("Max", length, 0), is_past


def _steps(emit: OpBuilder, length: Value, is_bad: Value) -> Value:
    """Emit 0, 1, …, length - 1; for undefined results the step is 0, so the runtime fails."""
    return emit("Range", 0, length, emit("Where", is_bad, 0, 1))


def _floating(b: Builder, operands: tuple[Value, Value, Value], dtype: DType) -> Value:
    """Emit `start + i * step` in float64 for all elements before `stop`."""
    emit = OpBuilder(b)
    zero, one = b.constant(np.float64(0)), b.constant(np.float64(1))
    start, stop, step = (_as(emit, operand, DType.FLOAT64) for operand in operands)
    is_zero = emit("Equal", _as(emit, _rounded(emit, step, dtype), DType.FLOAT64), zero)
    quotient = emit("Div", emit("Sub", stop, start), emit("Where", is_zero, one, step))
    fits = emit("Less", quotient, b.constant(np.float64(_LONGEST)))
    # An infinite operand is refused, also where it ends an empty range: infinity minus itself is no number.
    finite = [emit("Equal", emit("Sub", number, number), zero) for number in (start, stop, step, quotient)]
    is_bad = _any(emit, [is_zero, *(emit("Not", claim) for claim in (fits, *finite))])
    whole = emit("Max", emit("Where", is_bad, zero, emit("Ceil", quotient)), zero)
    length = emit("Cast", whole, to=DType.INT64)
    steps = emit("Cast", _steps(emit, length, is_bad), to=DType.FLOAT64)
    return _rounded(emit, emit("Add", start, emit("Mul", steps, step)), dtype)


def _rounded(emit: OpBuilder, value: Value, dtype: DType) -> Value:
    """Cast float64 to another type; ONNX Runtime casts to 8-bit integers from float32 only."""
    if dtype.bits < 16:
        value = _as(emit, value, DType.FLOAT32)
    return _as(emit, value, dtype)


@Range.export_rule("openvino")
def export_range(b: Builder, start: Value, limit: Value, delta: Value) -> tuple[Value, ...] | None:
    """Export Range. ONNX computes in the operand type, which OpenVINO supports."""
    fact = start.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        return None
    first, last, step = (_end(b, each, fact.dtype) for each in (start, limit, delta))
    sign = None if delta.storage is None else float(np.sign(delta.storage.numpy().reshape(())))
    if sign and not _is_directed(start, limit, sign):
        # OpenVINO's CPU plugin ignores the direction: range(2, 0, 1) has two elements.
        last = emit(b, "opset1.Maximum" if sign > 0 else "opset1.Minimum", last, first)
    return b.emit("opset4.Range", first, last, step, output_type=fact.dtype)


def _is_directed(start: Value, limit: Value, sign: float) -> bool:
    """Whether `limit - start` is certainly 0 or of the sign `sign`."""
    first, last = (_element(each) for each in (start, limit))
    if first is None or last is None:
        return False
    return (decide_less(last, first) if sign > 0 else decide_less(first, last)) is False


def _element(value: Value) -> Dim | None:
    """The known element of an integer scalar, or `None`."""
    fact = value.fact
    known = integers(value) or (fact.elements if isinstance(fact, TensorFact) else None)
    return known[0] if known is not None and len(known) == 1 else None


def _end(b: Builder, value: Value, dtype: DType) -> Value:
    """Return a scalar; static ones become constants, because OpenVINO 2026.4 requires it."""
    known = integers(value)
    if known is not None and len(known) == 1 and not value.is_constant:
        return b.constant(np.array(known[0], dtype.numpy), dtype)
    return emitted_scalar(b, value)


@Constant.export_rule("openvino")
def export_constant(b: Builder, **attributes: Any) -> tuple[Value, ...]:
    """Const layers are constants here."""
    return (b.constant(constant_value(attributes)),)
