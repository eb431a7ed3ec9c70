"""Positions, masks and position biases that all layers share."""

from __future__ import annotations

from math import floor, log2
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.definitions.arithmetic import Add, Max, Mul, Sub
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.comparison import And, Greater, LessOrEqual, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.running import CumSum
from graphport.ops.definitions.reshape import Shape, Squeeze, Unsqueeze

if TYPE_CHECKING:
    from graphport.formats.checkpoint.architecture.net import Net
    from graphport.ir.graph import Value

LOWEST = -1e30
"""Bias of hidden keys, which absorbs every score.

It is finite, so that a query that sees no key gets the mean of all values, as in transformers. ONNX Runtime computes 0
for such a query if the bias is the lowest float.
"""


class Masks:
    """Masks of a decoder: which keys a query sees, as biases of the scores."""

    def __init__(self, net: Net, input_ids: Value, attention_mask: Value) -> None:
        self.net = net
        self.mask = attention_mask
        self.length = self._dim(input_ids, 1)
        self.total = self._dim(attention_mask, 1)
        self._biases: dict[tuple[int, str], Value] = {}

    def _dim(self, x: Value, axis: int) -> Value:
        shape = self.net.op(Shape, x, start=axis, end=axis + 1, stem="length")
        return self.net.op(Squeeze, shape, self.net.integers(0), stem="length")

    def positions(self, *, is_clipped: bool) -> Value:
        """Return the positions of the queries, counted over the seen keys.

        Positions of hidden queries are 0 if `is_clipped`, otherwise -1.  Shapes: → [B, S].
        """
        net = self.net
        counts = net.op(CumSum, self.mask, net.integer(1), stem="positions")
        if is_clipped:
            found = net.op(Max, net.op(Sub, counts, net.integer(1)), net.integer(0), stem="positions")
        else:
            found = net.op(Sub, net.op(Mul, counts, self.mask), net.integer(1), stem="positions")
        first = net.op(Unsqueeze, net.op(Sub, self.total, self.length), net.integers(0), stem="positions")
        last = net.op(Unsqueeze, self.total, net.integers(0), stem="positions")
        return net.op(Slice, found, first, last, net.integers(1), stem="positions")

    def bias(self, window: int = 0, alibi: Value | None = None) -> Value:
        """Return the bias of the scores of causal attention, limited to a window of `window` keys.

        Shapes: → [B, 1, S, T], or [B, heads, S, T] with `alibi` [B, heads, 1, T].
        """
        label = "" if alibi is None else alibi.name
        found = self._biases.get((window, label))
        if found is None:
            found = self._biases[window, label] = self._bias(window, alibi)
        return found

    def _bias(self, window: int, alibi: Value | None) -> Value:
        net = self.net
        zero, one = net.integer(0), net.integer(1)
        keys = net.op(Range, zero, self.total, one, stem="keys")
        first = net.op(Sub, self.total, self.length, stem="queries")
        queries = net.unsqueeze(net.op(Range, first, self.total, one, stem="queries"), 1)
        seen = net.op(LessOrEqual, keys, queries, stem="causal")
        if window:
            nearest = net.op(Sub, queries, net.integer(window), stem="window")
            seen = net.op(And, seen, net.op(Greater, keys, nearest, stem="window"), stem="window")
        given = net.unsqueeze(net.cast(self.mask, DType.BOOL), 1, 2)
        seen = net.op(And, seen, given, stem="seen")
        return net.op(Where, seen, net.floats(0) if alibi is None else alibi, net.floats(LOWEST), stem="mask")

    def alibi(self, heads: int, most: float, *, is_rounded: bool, scale: float) -> Value:
        """Return slope * position for each head and key.  Shapes: → [B, heads, 1, T]."""
        net = self.net
        counts = net.op(CumSum, self.mask, net.integer(1), stem="alibi")
        places = net.op(Mul, net.op(Sub, counts, net.integer(1)), self.mask, stem="alibi")
        places = net.unsqueeze(net.cast(places, DType.FLOAT32), 1, 2)
        slopes = net.floats(np.asarray(alibi_slopes(heads, most), np.float32).reshape(1, heads, 1, 1), "slopes")
        if not is_rounded:
            return net.scaled(net.op(Mul, places, slopes, stem="alibi"), scale)
        product = net.op(Mul, self._rounded(places), self._rounded(slopes), stem="alibi")
        return net.scaled(self._rounded(product), scale)

    def _rounded(self, x: Value) -> Value:
        """Round to bfloat16."""
        net = self.net
        return net.op(Cast, net.op(Cast, x, to=DType.BFLOAT16), to=DType.FLOAT32)

    def local(self, reach: int) -> Value:
        """Return the bias of bidirectional attention to keys at most `reach` away; 0: to all.  Shapes: → [B, 1, S, S].

        The bias has a row for each query, because ONNX Runtime does not repeat one.
        """
        net = self.net
        keys = net.op(Range, net.integer(0), self.total, net.integer(1), stem="keys")
        queries = net.unsqueeze(keys, 1)
        given = net.unsqueeze(net.cast(self.mask, DType.BOOL), 1, 2)
        given = net.op(And, given, net.op(LessOrEqual, net.integer(0), queries, stem="rows"), stem="seen")
        if reach:
            behind = net.op(LessOrEqual, keys, net.op(Add, queries, net.integer(reach)), stem="window")
            ahead = net.op(LessOrEqual, queries, net.op(Add, keys, net.integer(reach)), stem="window")
            given = net.op(And, given, net.op(And, behind, ahead), stem="window")
        return net.op(Where, given, net.floats(0), net.floats(LOWEST), stem="mask")


def alibi_slopes(heads: int, most: float = 8.0) -> list[float]:
    """Return the slopes of ALiBi: a series down to 2^-most; beyond a power of two every other one of the next."""
    whole = 2 ** floor(log2(heads))
    slopes = [2 ** (-most * (i + 1) / whole) for i in range(whole)]
    return slopes + [2 ** (-most * (2 * i + 1) / (2 * whole)) for i in range(heads - whole)]
