"""Reduction subgraphs of two operands, and reductions over windows, in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, import_rule, nearest
from graphport.formats.tflite.rules.padding import interleave_fill, pad_edges
from graphport.ir.graph import Graph
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Max, Min, Mul
from graphport.ops.definitions.comparison import And, Or
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.lowering.operands import cast, dtype_of, needed, reshaped, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

_STABLEHLO = {"ADD": "Add", "MULTIPLY": "Mul", "MAXIMUM": "Max", "MINIMUM": "Min", "AND": "And", "OR": "Or"}
_OP_DEFS: dict[str, OpDef] = {op_def.name: op_def for op_def in (Add, Mul, Max, Min, And, Or)}
_FUNCTIONS = (None, Add, Mul, Min, Max, And, Or)
_WIDE = frozenset((DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL))


def reduction_of(body: object) -> str:
    """Return the operator that a binary subgraph computes, `assign` if it returns the second input; empty otherwise.

    The subgraph may use TFLite or canonical operators.
    """
    if not isinstance(body, Graph) or (len(body.inputs), len(body.outputs)) != (2, 1):
        return ""
    if body.outputs[0] is body.inputs[1]:
        return "assign"
    node = body.outputs[0].producer
    if node is None or len(body) != 1 or list(node.inputs) not in (body.inputs, body.inputs[::-1]):
        return ""
    return _STABLEHLO.get(node.op_type.removeprefix("STABLEHLO_"), "") if node.dialect else node.op


@import_rule("STABLEHLO_REDUCE_WINDOW", is_raw=True)
def stablehlo_reduce_window(op: Operator) -> Value:
    """STABLEHLO_REDUCE_WINDOW. Operands: x, which may be dilated and padded, and the initial value."""
    rank = len(op.dims(0))
    op_def = _OP_DEFS.get(reduction_of(op.options.get("body_subgraph")))
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    extents, strides, spreads, gaps = (tuple(op.option(name) or (1,) * rank) for name in names)
    pads = tuple(op.option("padding") or (0,) * (2 * rank))
    if op_def is None:
        message = "the reduction function is not a sum, product, maximum, minimum, AND or OR"
        raise UnsupportedError(message)
    if {len(extents), len(strides), len(spreads), len(gaps), len(pads) // 2} != {rank}:
        message = f"the window {list(extents)} or its strides, dilations or pads do not match the operand rank {rank}"
        raise ShapeError(message, "expected one value per axis")
    x = interleave_fill(op.b, op.raw(0), [n - 1 for n in spreads], op.raw(1))
    x = pad_edges(op.b, x, pads[::2], pads[1::2], op.raw(1))
    return _reduced(op.b, x, op.raw(1), op_def, extents, strides, gaps)


@import_rule("REDUCE_WINDOW", is_raw=True)
def reduce_window(op: Operator) -> Value:
    """REDUCE_WINDOW. Operands: x, initial value, window, strides and dilations."""
    function = int(op.option("reduce_function"))
    op_def = _FUNCTIONS[function] if 0 <= function < len(_FUNCTIONS) else None
    if op_def is None:
        message = f"reduce_function is {function}, expected 1 to {len(_FUNCTIONS) - 1}"
        raise UnsupportedError(message)
    window = [needed(op.raw(place), "a window") for place in (2, 3, 4)]
    if {len(each) for each in window} != {len(op.dims(0))}:
        message = (
            f"the window {list(window[0])} or its strides or dilations do not match the operand rank {len(op.dims(0))}"
        )
        raise ShapeError(message, "expected one value per axis")
    return _reduced(op.b, op.raw(0), op.raw(1), op_def, *window)


def _reduced(
    b: Builder,
    x: Value,
    begins: Value,
    op_def: OpDef,
    extents: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Reduce axis by axis, which is valid for associative and commutative operators."""
    if min((*extents, *strides, *dilations), default=1) < 1:
        message = (
            f"window {list(extents)}, strides {list(strides)}, dilations {list(dilations)}: expected positive values"
        )
        raise ShapeError(message, "use values of 1 or more")
    own = dtype_of(x)
    wide = nearest(own, _WIDE)
    dims = sizes(b.dims(x, len(extents)), "the input of the window")
    x = cast(b, x, wide)
    for axis, (n, k, s, d) in enumerate(zip(dims, extents, strides, dilations, strict=True)):
        if n < (k - 1) * d + 1:
            message = f"a window of {(k - 1) * d + 1} exceeds the input size {n}"
            raise ShapeError(message)
        x = _along(b, x, op_def, axis, n, k, d)
        if s != 1:
            x = b(Slice, x, [0], [n], [axis], [s])
    return cast(b, b(op_def, x, cast(b, reshaped(b, begins, ()), wide)), own)


def _along(b: Builder, x: Value, op_def: OpDef, axis: int, n: int, k: int, d: int) -> Value:
    """Combine k neighbours at distance d along an axis, from windows of doubled size."""
    doubled, size = x, 1
    total: Value | None = None
    covered = 0
    while True:
        if k & size:
            total = doubled if total is None else _joined(b, total, doubled, op_def, axis, covered * d)
            covered += size
        if covered == k:
            break
        doubled, size = _joined(b, doubled, doubled, op_def, axis, size * d), size * 2
    length = n - (k - 1) * d
    return x if total is None else b(Slice, total, [0], [length], [axis])


def _joined(b: Builder, left: Value, right: Value, op_def: OpDef, axis: int, by: int) -> Value:
    """Combine the first value with the second shifted along the axis, limited to the length of the second."""
    behind = sizes(b.dims(right), "the input of the window")[axis]
    length = min(sizes(b.dims(left), "the input of the window")[axis], behind - by)
    first = b(Slice, left, [0], [length], [axis])
    second = b(Slice, right, [by], [by + length], [axis])
    return b(op_def, first, second)
