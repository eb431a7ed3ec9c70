"""Sampling of pictures at places of a grid, in ncnn.

Half-way between two pixels, the nearest one is the next there and the even one in ONNX. So places are rounded in steps
of their own, and the grid that is left has the middles of pixels, which everybody takes for the same one.
"""

from __future__ import annotations

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.ncnn.binding import Layer, emitted, layer, lengths_of
from graphport.ops.folded import folded
from graphport.ops.pages.arithmetic import Abs, Add, Floor, Mul, Round, Sub
from graphport.ops.pages.reshape import Transpose
from graphport.ops.pages.resize import GridSample
from graphport.ops.views.resize import GridSampleView

_MODES = {1: "linear", 2: "nearest", 3: "cubic"}
_BORDERS = {1: "zeros", 2: "border", 3: "reflection"}
_ROUNDS = frozenset({"Floor", "Round"})
_FAR = 6
"""Steps that are followed from a grid to where it was rounded: those between are moves and sums with constants."""


@layer("GridSample")
def grid_sample(at: Layer) -> Value:
    if at.rank != 3 or len(at.inputs) != 2:
        message = "sampling of a volume"
        raise UnsupportedError(message)
    b, grid = at.b, at.inputs[1]
    if at.integer(3):
        grid = b(Transpose, grid, perm=(0, 2, 3, 1))
    mode, border, aligns = _MODES[at.integer(0, 1)], _BORDERS[at.integer(1, 1)], bool(at.integer(2))
    sizes = _sizes(b, at.x)
    if mode == "nearest" and sizes is not None:
        places = _placed(b, grid, sizes, aligns=aligns)
        if border == "reflection":
            places, border = _mirrored(b, places, sizes, aligns=aligns), "border"
        whole = b(Floor, b(Add, places, b.like(places, 0.5)))
        grid = _middles(b, whole, sizes, aligns=aligns)
    return b(GridSample, at.x, grid, mode=mode, padding_mode=border, align_corners=int(aligns) or None)


def _sizes(b: Builder, x: Value) -> np.ndarray | None:
    """Width and height of pictures, if they are known."""
    height, width = b.dims(x)[-2:]
    return np.array([width, height], np.float32) if isinstance(width, int) and isinstance(height, int) else None


def _placed(b: Builder, grid: Value, sizes: np.ndarray, *, aligns: bool) -> Value:
    """Places from -1 to 1 as those of pixels, in the order of ncnn's own steps."""
    one, half = b.like(grid, 1), b.like(grid, 0.5)
    if aligns:
        return b(Mul, b(Mul, b(Add, grid, one), half), b.like(grid, sizes - 1))
    return b(Mul, b(Sub, b(Mul, b(Add, grid, one), b.like(grid, sizes)), one), half)


def _mirrored(b: Builder, places: Value, sizes: np.ndarray, *, aligns: bool) -> Value:
    """Places beyond an edge, on this side of it: once, as ncnn does."""
    if aligns:
        far = b.like(places, sizes - 1)
        return b(Sub, far, b(Abs, b(Sub, b(Abs, places), far)))
    far, half = b.like(places, sizes), b.like(places, 0.5)
    return b(Sub, b(Sub, far, b(Abs, b(Sub, b(Abs, b(Add, places, half)), far))), half)


def _middles(b: Builder, whole: Value, sizes: np.ndarray, *, aligns: bool) -> Value:
    """Places of pixels as those from -1 to 1."""
    if aligns:
        factor = np.where(sizes > 1, 2 / np.maximum(sizes - 1, 1), 0)
        return b(Sub, b(Mul, whole, b.like(whole, factor)), b.like(whole, 1))
    return b(Add, b(Mul, whole, b.like(whole, 2 / sizes)), b.like(whole, 1 / sizes - 1))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@GridSampleView.lift("ncnn")
def lift_grid_sample(b: Builder, op: GridSampleView) -> Value | None:
    """Of a picture."""
    grid = op.grid
    kinds, borders = ({name: number for number, name in each.items()} for each in (_MODES, _BORDERS))
    lengths, places = lengths_of(b, op.x), lengths_of(b, grid)
    if len(lengths) != 3 or len(places) != 3 or op.mode not in kinds or op.padding_mode not in borders:
        return None
    sizes, aligns = _sizes(b, op.x), bool(op.align_corners)
    if op.mode == "nearest" and sizes is not None and not _is_rounded(grid):
        grid = _middles(b, b(Round, _placed(b, grid, sizes, aligns=aligns)), sizes, aligns=aligns)
    fact = TensorFact(DType.FLOAT32, (1, lengths[0], *places[:2]))
    return emitted(
        b, "GridSample", op.x, grid, fact=fact, p0=kinds[op.mode], p1=borders[op.padding_mode], p2=int(aligns)
    )


def _is_rounded(grid: Value) -> bool:
    """Whether places were rounded a few steps before."""
    current: Value | None = grid
    for _ in range(_FAR):
        made = None if current is None else current.producer
        if made is None:
            return False
        if made.word in _ROUNDS or (
            made.dialect == "ncnn" and made.word == "UnaryOp" and made.attributes.get("0") in (2, 18)
        ):
            return True
        current = next((x for x in made.operands if folded(x) is None), None)
    return False
