"""Valid ranges of inputs: indices of an axis, lengths, masks, plain data, and floats that a Range reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.dims import Symbolic, evaluate
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.declare import ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dims import Dim
    from graphport.ir.graph import Node, Value

_MOST_STEPS = 2000
_NARROW = 16
"""Bits up to which an integer type holds samples such as pixels, and no indices."""


class IntegerRange(NamedTuple):
    """The integers in [low, high); `is_data` if they are data, not indices, lengths or masks."""

    low: int
    high: int
    is_data: bool = False
    is_divisor: bool = False
    """Whether it is a divisor: 0 ends the process of some runtimes."""


_DIVISORS = {"Div": 1, "Mod": 1}
"""Index of the divisor, by operator."""
_MASK = IntegerRange(0, 2)
_ORDINARY = IntegerRange(-9, 10, is_data=True)


def integer_range(value: Value, sizes: Mapping[str, int]) -> IntegerRange:
    """Return the valid range of an integer input at some sizes of open dims, derived from its consumers."""
    dtype = value.dtype
    found: list[IntegerRange] = []
    is_plain = True
    divides = False
    seen: set[Value] = set()
    todo = [(value, True)]
    while todo and len(seen) < _MOST_STEPS:
        each, is_moved = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        for node in each.users:
            op_def = registry.op_defs().get(node.op)
            indices = [index for index, operand in enumerate(node.inputs) if operand is each]
            if op_def is None or not indices:
                is_plain = False
                continue
            divides = divides or (is_moved and _DIVISORS.get(node.op) in indices)
            operands = [op_def.signature.operand(index) for index in indices]
            names = {operand.name for operand in operands if operand is not None}
            rules = [rule for name, rule in op_def.holds.items() if name in names]
            if rules:
                found += [_range(rule, node, sizes) if is_moved else _MASK for rule in rules]
            elif names & set(op_def.index_operands):
                found.append(_MASK)
            else:
                is_plain = is_plain and _is_integer(node)
                moved = is_moved and op_def.moves_data
                todo += [(result, moved) for result in node.results if _may_be_integer(result)]
    if found:
        low, high = max(each.low for each in found), min(each.high for each in found)
        return IntegerRange(low, max(high, low + 1))
    if dtype is not None and dtype.bits <= _NARROW:
        return _data_range(dtype.bits, is_signed=dtype.kind == "i")._replace(is_divisor=divides)
    if not is_plain and not divides:
        return _MASK
    plain = _ORDINARY if dtype is not None and dtype.kind == "i" else IntegerRange(1, 10, is_data=True)
    return plain._replace(is_divisor=divides)


def is_coordinate(value: Value) -> bool:
    """Whether the floats of an input are coordinates, scales or counts, which have a valid range."""
    for node in value.users:
        op_def = registry.op_defs().get(node.op)
        for index, operand in enumerate(node.inputs):
            known = None if op_def is None else op_def.signature.operand(index)
            if operand is value and op_def is not None and known is not None and known.name in op_def.index_operands:
                return True
    return False


START, LIMIT, DELTA = IntegerRange(0, 3), IntegerRange(3, 10), IntegerRange(1, 3)
"""Whole numbers for the operands of Range: its length is defined, and no rounding decides it."""
_OPERANDS_OF_RANGE = {
    ("Range", 0): START, ("Range", 1): LIMIT, ("Range", 2): DELTA,
    # The length is (limit - start) / delta.
    ("Sub", 0): LIMIT, ("Sub", 1): START, ("Div", 1): DELTA,
}  # fmt: skip


def range_operand(value: Value) -> IntegerRange | None:
    """Return the integer range of a scalar float input that determines a Range's length; `None` for others."""
    if value.shape != ():
        return None
    role: IntegerRange | None = None
    seen: set[Value] = set()
    todo = [value]
    while todo and len(seen) < _MOST_STEPS:
        each = todo.pop(0)
        if each in seen:
            continue
        seen.add(each)
        for node in each.users:
            places = [index for index, operand in enumerate(node.inputs) if operand is each]
            if len(places) == 1:  # x - x tests for infinity
                role = role or _OPERANDS_OF_RANGE.get((node.op, places[0]))
            if node.op == "Range":
                return role
            todo += [result for result in node.results if result.shape == () and result.dtype is not DType.BOOL]
    return None


def _data_range(bits: int, *, is_signed: bool) -> IntegerRange:
    return IntegerRange(-(1 << (bits - 1)) if is_signed else 0, 1 << (bits - is_signed), is_data=True)


def _range(rule: Any, node: Node, sizes: Mapping[str, int]) -> IntegerRange:
    facts = [None if operand is None else operand.fact for operand in node.inputs]
    try:
        low, high = rule(*facts, **node.attributes)
        ends = cast("tuple[Dim, ...]", high if isinstance(high, tuple) else (high,))
        return IntegerRange(_length(low, sizes), min(_length(end, sizes) for end in ends))
    except (ShapeError, ValueError, IndexError, KeyError, TypeError, AttributeError):
        return IntegerRange(0, 1)  # an axis of unknown length is assumed to have a first element


def _length(dim: Dim, sizes: Mapping[str, int]) -> int:
    return evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim


def _is_integer(node: Node) -> bool:
    """Whether all results of a node are integers, not booleans or floats."""
    dtypes = [each.fact.dtype for each in node.results if isinstance(each.fact, TensorFact)]
    return all(dtype is not None and dtype.is_integer for dtype in dtypes)


def _may_be_integer(value: Value) -> bool:
    dtype = value.dtype
    return dtype is None or dtype.is_integer
