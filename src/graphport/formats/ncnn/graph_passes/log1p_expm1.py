"""Recognize `log(1 + x)` and `exp(x) - 1`, which ncnn has as functions and ONNX has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.ncnn.rules.annotations import FUNCTION

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_EXPM1, _LOG1P = 21, 27
"""Their numbers as functions of ncnn."""


def note_functions(graph: Graph) -> int:
    """Mark each Where that computes log1p or expm1 of its second operand, for its export rule; return the number.

    ONNX models guard these functions by IsInf and IsNaN; ncnn's functions handle these arguments themselves.
    """
    count = 0
    for node in graph:
        if node.op_type != "Where" or node.dialect or len(node.operands) != 3:
            continue
        number = _LOG1P if _is_log1p(node) else _EXPM1 if _is_expm1(node) else None
        if number is not None:
            node.notes[FUNCTION] = number
            count += 1
    return count


def _operands_of(value: Value | None, op: str) -> tuple[Value, ...]:
    """Return the operands of the producer if it has op type `op`; empty otherwise."""
    node = None if value is None else value.producer
    return tuple(node.operands) if node is not None and node.op == op else ()


def _is(value: Value, number: float) -> bool:
    storage = value.storage if value.is_constant else None
    return storage is not None and storage.count == 1 and float(storage.numpy().reshape(-1)[0]) == number


def _is_log1p(node: Node) -> bool:
    """Match log1p: Where(Or(Equal(near, 1), IsInf(x)), x, Log(near) * (x / (near - 1)))  with  near = x + 1.

    IsInf must detect positive infinity only: log1p(-inf) is NaN.
    """
    condition, x, corrected = node.operands
    either, product = _operands_of(condition, "Or"), _operands_of(corrected, "Mul")
    if len(either) != 2 or len(product) != 2:
        return False
    equal, infinite, ratio = (
        _operands_of(either[0], "Equal"),
        _operands_of(either[1], "IsInf"),
        _operands_of(product[1], "Div"),
    )
    if len(equal) != 2 or infinite != (x,) or not _is(equal[1], 1) or not _is_of_positive(either[1].producer):
        return False
    near = equal[0]
    added, logged = _operands_of(near, "Add"), _operands_of(product[0], "Log")
    if logged != (near,) or len(ratio) != 2 or ratio[0] is not x:
        return False
    less = _operands_of(ratio[1], "Sub")
    if len(added) != 2 or len(less) != 2:
        return False
    return added[0] is x and _is(added[1], 1) and less[:1] == (near,) and _is(less[1], 1)


def _is_of_positive(node: Node | None) -> bool:
    attributes = {} if node is None else node.attributes
    return attributes.get("detect_positive", 1) == 1 and attributes.get("detect_negative", 1) == 0


def _is_expm1(node: Node) -> bool:
    """Match expm1: Where(Equal(e, 1), x, Where(…, e - 1, (e - 1) * (x / Log(e))))  with  e = Exp(x)."""
    condition, x, settled = node.operands
    equal, inner = _operands_of(condition, "Equal"), _operands_of(settled, "Where")
    if len(equal) != 2 or len(inner) != 3 or _operands_of(equal[0], "Exp") != (x,) or not _is(equal[1], 1):
        return False
    grown, less, product = equal[0], inner[1], _operands_of(inner[2], "Mul")
    taken = _operands_of(less, "Sub")
    if len(taken) != 2 or len(product) != 2 or product[0] is not less or taken[:1] != (grown,) or not _is(taken[1], 1):
        return False
    ratio = _operands_of(product[1], "Div")
    return len(ratio) == 2 and ratio[0] is x and _operands_of(ratio[1], "Log") == (grown,)
