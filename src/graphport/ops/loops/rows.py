"""Values of a loop as matrices [batch, width], and the sums of products and biases that are inputs of gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.constant_folding import folded
from graphport.ops.lowering.operands import integers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value

_MAX_ADDENDS = 64
"""The maximum number of addends; no cell has more."""
_MATRIX = 2


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """Columns `start` to `stop` of a value, of a value times a matrix, or of a constant (`value` is `None`)."""

    value: Value | None
    matrix: Storage | None
    is_transposed: bool
    start: int
    stop: int


def _reshapes(node: Node) -> bool:
    """Whether the node keeps the order of elements."""
    return not node.dialect and (node.op_type == "Identity" or node.op_type in registry.stating("reshapes"))


def dims_of(value: Value | None) -> tuple[Dim, ...] | None:
    """Return the dims of a value; `None` if its rank is unknown."""
    return value.fact.shape if value is not None and isinstance(value.fact, TensorFact) else None


def producer(value: Value | None, op: str) -> Node | None:
    """Return the producer of `value` if its operator is `op`."""
    node = None if value is None else value.producer
    return node if node is not None and not node.dialect and node.op_type == op else None


def pairs(node: Node) -> Iterator[tuple[Value, Value]]:
    """Return the two operands in both orders."""
    if len(node.operands) == 2:
        one, two = node.operands
        yield one, two
        yield two, one


class Rows:
    """Interprets values of one graph as rows of a batch of size `batch`; all other axes have length 1."""

    def __init__(self, graph: Graph, batch: Dim) -> None:
        self.graph = graph
        self.batch = batch

    def without_unit_axes(self, value: Value) -> Value:
        """Follow `value` through nodes that only add or remove axes of length 1."""
        while True:
            node = value.producer
            if node is None or not _reshapes(node) or value.graph is not self.graph:
                return value
            source = node.operand(0)
            if source is None or not (self.is_row(source) and self.is_row(value)):
                return value
            if self.width(source) != self.width(value):
                return value
            value = source

    def is_row(self, value: Value) -> bool:
        """Whether `value` has one row per batch index, on any axis."""
        dims = dims_of(value)
        if not dims or not isinstance(dims[-1], int):
            return False
        others = [dim for dim in dims[:-1] if dim != 1]
        if self.batch == 1:
            return not others
        return len(others) == 1 and decide_equal(others[0], self.batch) is True

    def width(self, value: Value) -> int | None:
        """Return the number of columns."""
        dims = dims_of(value)
        return dims[-1] if dims and isinstance(dims[-1], int) else None

    def addends(self, value: Value) -> list[Value] | None:
        """Return the addends of a sum; `None` if there are more than `_MAX_ADDENDS`."""
        found: list[Value] = []
        waiting = [value]
        while waiting:
            each = self.without_unit_axes(waiting.pop())
            node = producer(each, "Add")
            if node is None or each.graph is not self.graph:
                found.append(each)
            else:
                waiting += node.operands
            if len(found) + len(waiting) > _MAX_ADDENDS:
                return None
        return found

    def sum_of(self, value: Value, start: int, stop: int) -> list[ColumnPart] | None:
        """Return the parts whose sum is the given columns; `None` if another operation is involved."""
        found: list[ColumnPart] = []
        addends = self.addends(value)
        for each in addends or ():
            parts = self._column_parts(each, start, stop)
            if parts is None:
                return None
            found += parts
        return None if addends is None else found

    def _column_parts(self, value: Value, start: int, stop: int) -> list[ColumnPart] | None:
        constant = row_of(value, self.width(value))
        if constant is not None:
            return [ColumnPart(None, constant, False, start, stop)] if stop <= constant.count else None
        if not self.is_row(value):
            return None
        node = value.producer
        if node is None or node.dialect or value.graph is not self.graph:
            return [ColumnPart(value, None, False, start, stop)]
        if (cut := self.cut(value)) is not None:
            source, begin = cut
            return self.sum_of(source, begin + start, begin + stop)
        if node.op_type in ("MatMul", "Gemm", "Einsum"):
            return self._product(node, start, stop)
        return [ColumnPart(value, None, False, start, stop)]

    def cut(self, value: Value) -> tuple[Value, int] | None:
        """Return the wider value that `value` is a column slice of, and the index of its first column."""
        node = value.producer
        if node is None or node.dialect or node.op_type not in ("Slice", "Split") or value.graph is not self.graph:
            return None
        begin, source = _first_column(node, value), node.operand(0)
        return (
            None
            if begin is None or source is None or not self.is_row(source)
            else (self.without_unit_axes(source), begin)
        )

    def _product(self, node: Node, start: int, stop: int) -> list[ColumnPart] | None:
        found = matrix_of(node)
        x = node.operand(0)
        if found is None or x is None or not self.is_row(x):
            return None
        matrix, is_transposed = found
        parts = [ColumnPart(self.without_unit_axes(x), matrix, is_transposed, start, stop)]
        shift = node.operand(2) if node.op_type == "Gemm" else None
        more = [] if shift is None else self.sum_of(shift, start, stop)
        return None if more is None else parts + more


def row_of(value: Value, width: Dim | None) -> Storage | None:
    """Return the elements of a constant that has one row."""
    dims = dims_of(value)
    if not dims or dims[-1] != width or any(dim != 1 for dim in dims[:-1]):
        return None
    return folded(value)


def matrix_of(node: Node) -> tuple[Storage, bool] | None:
    """Return the constant matrix that rows are multiplied by, and whether it is stored transposed."""
    weights = node.operand(1)
    is_transposed = False
    if node.op_type == "Gemm":
        given = [node.attributes.get(name, 1.0) for name in ("alpha", "beta")]
        if given != [1.0, 1.0] or node.attributes.get("transA", 0):
            return None
        is_transposed = bool(node.attributes.get("transB", 0))
    if node.op_type == "Einsum":
        transposes = _is_transposed(str(node.attributes.get("equation", "")))
        if transposes is None:
            return None
        is_transposed = transposes
    # Read a transposed constant in its stored layout.
    move = producer(weights, "Transpose")
    while move is not None and weights is not None:
        dims, order = dims_of(weights), move.attributes.get("perm")
        rank = 0 if dims is None else len(dims)
        last = (*range(rank - _MATRIX), rank - 1, rank - _MATRIX)
        if rank < _MATRIX or (order is not None and order != last) or (order is None and rank > _MATRIX):
            break
        weights, is_transposed = move.operand(0), not is_transposed
        move = producer(weights, "Transpose")
    dims = dims_of(weights)
    if weights is None or dims is None or len(dims) < _MATRIX or any(dim != 1 for dim in dims[:-_MATRIX]):
        return None
    if producer(weights, "DequantizeLinear") is not None:
        return None
    storage = folded(weights)
    return None if storage is None else (storage, is_transposed)


def _is_transposed(equation: str) -> bool | None:
    """Whether an Einsum equation multiplies rows by a transposed matrix; `None` if it is not a matrix product."""
    text, _, result = equation.replace(" ", "").partition("->")
    rows, _, matrix = text.partition(",")
    if len(matrix) < _MATRIX or len(rows) != len(result) or rows[:-1] != result[:-1] or "." in equation:
        return None
    units, pair = matrix[:-_MATRIX], matrix[-_MATRIX:]
    if set(units) & set(result) or len(set(pair)) < _MATRIX or set(rows[:-1]) & set(pair):
        return None
    if pair == result[-1] + rows[-1]:
        return True
    return False if pair == rows[-1] + result[-1] else None


def _first_column(node: Node, value: Value) -> int | None:
    """Return the first column that a Slice or Split selects; `None` if the columns are not contiguous."""
    dims = dims_of(node.operand(0))
    if not dims or not isinstance(dims[-1], int):
        return None
    last = len(dims) - 1
    if node.op_type == "Split":
        axis = node.attributes.get("axis", 0)
        widths = [dim[-1] if (dim := dims_of(result)) else None for result in node.results]
        before = [width for width in widths[: node.results.index(value)] if isinstance(width, int)]
        is_whole = isinstance(axis, int) and axis % len(dims) == last and len(before) == node.results.index(value)
        return sum(before) if is_whole and None not in node.outputs else None
    given = [integers(node.operand(place)) for place in (1, 2, 3, 4)]
    starts, _, axes, steps = given
    if starts is None or len(starts) != 1 or axes is None or axes[0] % len(dims) != last:
        return None
    if node.operand(4) is not None and steps != (1,):
        return None
    begin = starts[0] + dims[-1] if starts[0] < 0 else starts[0]
    return min(max(begin, 0), dims[-1])


def columns(part: ColumnPart, array: np.ndarray) -> np.ndarray:
    """Return the weight rows (one per output) or bias elements of `array` that `part` selects."""
    if part.value is None:
        return array.reshape(-1)[part.start : part.stop]
    matrix = array.reshape(array.shape[-_MATRIX:])
    return (matrix if part.is_transposed else matrix.T)[part.start : part.stop]
