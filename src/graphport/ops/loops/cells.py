"""Recognition of the recurrent cell (RNN, LSTM, GRU) that a loop body computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ops.loops.rows import ColumnPart, Rows, matrix_of, pairs, producer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.ir.graph import Graph, Node, Value

_ACTIVATIONS = frozenset(("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"))
"""The activations of ONNX's recurrent layers that have no parameters."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The argument of a gate's activation: input products, the product of the state, and biases."""

    entries: tuple[ColumnPart, ...]
    recurrent: ColumnPart
    shifts: tuple[ColumnPart, ...]
    late: tuple[ColumnPart, ...] = ()
    """Biases inside the product of the state, which are scaled by the reset gate together with it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An ONNX recurrent operator, its gates in ONNX's order, and the states that are h and c."""

    op: str
    gates: tuple[Gate, ...]
    activations: tuple[str, ...]
    states: tuple[int, ...]
    attributes: dict[str, int] = field(default_factory=dict[str, int])


def cell_of(body: Graph, count: int, rows: Rows, hidden: int) -> Cell | None:
    """Return the cell that a body with `count` states of `hidden` columns computes; `None` if it is not a cell."""
    finder = _Finder(body, count, rows, hidden)
    if count == 1:
        return finder.simple() or finder.gated()
    if count == 2:
        return finder.long_short(0, 1) or finder.long_short(1, 0)
    return None


class _Finder:
    def __init__(self, body: Graph, count: int, rows: Rows, hidden: int) -> None:
        self._rows = rows
        self._hidden = hidden
        self._states = [rows.without_unit_axes(value) for value in body.inputs[:count]]
        self._given = body.inputs[:count]
        self._entries = set(body.inputs[count:])
        self._results = [rows.without_unit_axes(value) for value in body.outputs[:count]]

    def simple(self) -> Cell | None:
        """Match h = f(x w + h r)."""
        found = self._gate(self._results[0], 0)
        return None if found is None else Cell("RNN", (found[1],), (found[0],), (0,))

    def long_short(self, h: int, c: int) -> Cell | None:
        """Match c = f(F) c + f(I) g(G), h = f(O) k(c)."""
        total = producer(self._results[c], "Add")
        for opened, shown in self._factors(self._results[h]):
            k = self._activated(shown)
            o = self._gate(opened, h)
            if (
                o is None
                or k is None
                or k[2]
                or total is None
                or self._rows.without_unit_axes(k[1]) is not self._results[c]
            ):
                continue
            for kept, new in pairs(total):
                f = next((self._gate(a, h) for a, b in self._factors(kept) if self._is_state(b, c)), None)
                if f is None or f[0] != o[0]:
                    continue
                for one, other in self._factors(new):
                    i, g = self._gate(one, h), self._gate(other, h)
                    if i is not None and g is not None and i[0] == o[0]:
                        gates = (i[1], o[1], f[1], g[1])
                        return Cell("LSTM", gates, (o[0], g[0], k[0]), (h, c))
        return None

    def gated(self) -> Cell | None:
        """Match h = (1 - f(Z)) n + f(Z) h, where the state inside n = g(N) is reset by f(R)."""
        for gate, new in self._mixed(self._results[0]):
            z, shown = self._gate(gate, 0), self._activated(new)
            if z is None or shown is None or shown[2]:
                continue
            found = self._reset(shown[1], z[0])
            if found is not None:
                r, n, is_late = found
                kinds = (z[0], shown[0])
                return Cell("GRU", (z[1], r, n), kinds, (0,), {"linear_before_reset": int(is_late)})
        return None

    # Parts of cells

    def _mixed(self, result: Value) -> Iterator[tuple[Value, Value]]:
        """Yield the pairs of z and n for which `result` can be (1 - z) n + z h or n + z (h - n)."""
        node = producer(result, "Add")
        if node is None:
            return
        for kept, rest in pairs(node):
            for z, old in self._factors(kept):
                if self._is_state(old, 0):
                    yield from ((z, n) for n in self._unlike(rest, z))
                # n + z (h - n)
                difference = producer(old, "Sub")
                if difference is not None:
                    state, n = (self._rows.without_unit_axes(each) for each in difference.operands)
                    if self._is_state(state, 0) and self._rows.without_unit_axes(rest) is n:
                        yield z, n

    def _unlike(self, value: Value, z: Value) -> Iterator[Value]:
        """Yield each n for which `value` is (1 - z) n or n - z n."""
        for one, n in self._factors(value):
            difference = producer(one, "Sub")
            if (
                difference is not None
                and self._rows.without_unit_axes(difference.operands[1]) is z
                and _subtracts_from_one(difference)
            ):
                yield n
        difference = producer(self._rows.without_unit_axes(value), "Sub")
        if difference is not None:
            n = self._rows.without_unit_axes(difference.operands[0])
            if any(a is z and b is n for a, b in self._factors(difference.operands[1])):
                yield n

    def _reset(self, total: Value, kind: str) -> tuple[Gate, Gate, bool] | None:
        """Match the sum of a GRU's gate n. Return gates r and n, and linear_before_reset (r multiplies the product)."""
        addends = self._rows.addends(total)
        for place, each in enumerate(addends or ()):
            others = [other for at, other in enumerate(addends or ()) if at != place]
            for gate, product in self._factors(each):
                r = self._gate(gate, 0)
                parts = self._rows.sum_of(product, 0, self._hidden)
                late = None if r is None or r[0] != kind or parts is None else self._split(parts, 0)
                if r is not None and late is not None and not late.entries:
                    n = self._with(others, late)
                    if n is not None:
                        return r[1], n, True
            node = each.producer
            matrix = None if node is None or node.dialect else matrix_of(node) if _multiplies(node) else None
            if node is None or matrix is None or node.operand(2) is not None:
                continue
            for gate, state in self._factors(node.operands[0]):
                r = self._gate(gate, 0)
                if r is None or r[0] != kind or not self._is_state(state, 0):
                    continue
                product = ColumnPart(self._states[0], matrix[0], matrix[1], 0, self._hidden)
                n = self._with(others, Gate((), product, ()))
                if n is not None:
                    return r[1], n, False
        return None

    def _with(self, others: Sequence[Value], product: Gate) -> Gate | None:
        """Add the input products and biases of `others` to a gate that has a state product."""
        entries: list[ColumnPart] = []
        shifts: list[ColumnPart] = []
        for each in others:
            parts = self._rows.sum_of(each, 0, self._hidden)
            if parts is None:
                return None
            for part in parts:
                if part.value is not None and part.value not in self._entries:
                    return None
                (shifts if part.value is None else entries).append(part)
        return Gate(tuple(entries), product.recurrent, tuple(shifts), product.shifts)

    def _gate(self, value: Value, state: int) -> tuple[str, Gate] | None:
        """Return the activation that computes `value` and the gate that it is applied to."""
        found = self._activated(value)
        parts = None if found is None else self._rows.sum_of(found[1], found[2], found[2] + self._hidden)
        gate = None if parts is None else self._split(parts, state)
        return None if found is None or gate is None else (found[0], gate)

    def _activated(self, value: Value) -> tuple[str, Value, int] | None:
        """Return the activation, its operand, and the first column of its result that `value` selects."""
        value, start = self._rows.without_unit_axes(value), 0
        if self._rows.width(value) != self._hidden:
            return None
        while (cut := self._rows.cut(value)) is not None:
            value, start = cut[0], start + cut[1]
        node = value.producer
        if node is None or node.dialect or node.op_type not in _ACTIVATIONS:
            return None
        return node.op_type, node.operands[0], start

    def _split(self, parts: Sequence[ColumnPart], state: int) -> Gate | None:
        entries = tuple(part for part in parts if part.value in self._entries)
        products = [part for part in parts if part.value is self._states[state] and part.matrix is not None]
        shifts = tuple(part for part in parts if part.value is None)
        if len(products) != 1 or len(entries) + len(shifts) + 1 != len(parts):
            return None
        return Gate(entries, products[0], shifts)

    def _factors(self, value: Value | None) -> Iterator[tuple[Value, Value]]:
        node = None if value is None else producer(self._rows.without_unit_axes(value), "Mul")
        for one, other in pairs(node) if node is not None else ():
            yield self._rows.without_unit_axes(one), self._rows.without_unit_axes(other)

    def _is_state(self, value: Value, place: int) -> bool:
        return self._rows.without_unit_axes(value) is self._states[place]


def _multiplies(node: Node) -> bool:
    return node.op_type in ("MatMul", "Gemm", "Einsum")


def _subtracts_from_one(difference: Node) -> bool:
    """Whether the minuend is the constant 1."""
    first = difference.operands[0]
    known = first.fact.reals if isinstance(first.fact, TensorFact) else None
    if known is None and first.storage is not None and first.is_constant and first.storage.count == 1:
        known = tuple(first.storage.numpy().reshape(-1).astype(float).tolist())
    return known == (1.0,)
