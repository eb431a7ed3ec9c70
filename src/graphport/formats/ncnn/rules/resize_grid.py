"""GridSample in ncnn.

Halfway between two pixels, ncnn selects the next one and ONNX the even one. So coordinates are rounded explicitly, and
the grid contains pixel centers, which are unambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from graphport.core.storage import Storage
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import emitted, lengths_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, Floor, Mul, Round, Sub
from graphport.ops.definitions.reshape import Transpose
from graphport.ops.definitions.resize import GridSample
from graphport.ops.views.resize import GridSampleView

_MODES = {1: "linear", 2: "nearest", 3: "cubic"}
_BORDERS = {1: "zeros", 2: "border", 3: "reflection"}
_ROUNDS, _ROUNDED = frozenset({"Floor", "Round"}), (2, 18)
"""Rounding operators, and their numbers as functions of ncnn."""


@layer("GridSample")
def grid_sample(at: Layer) -> Value:
    if at.rank != 3 or len(at.inputs) != 2:
        message = "GridSample of a volume (3 spatial axes)"
        raise UnsupportedError(message)
    b, grid = at.b, at.inputs[1]
    if at.integer(3):
        grid = b(Transpose, grid, perm=(0, 2, 3, 1))
    mode, border = at.choice(0, _MODES, "sampling", 1), at.choice(1, _BORDERS, "border", 1)
    aligns = bool(at.integer(2))
    sizes = _sizes(b, at.x)
    is_settled = sizes is not None and border != "reflection" and _are_middles(grid, sizes, aligns=aligns)
    if mode == "nearest" and sizes is not None and not is_settled:
        positions = _placed(b, grid, sizes, aligns=aligns)
        if border == "reflection":
            positions, border = _mirrored(b, positions, sizes, aligns=aligns), "border"
        whole = b(Floor, b(Add, positions, 0.5))
        grid = _middles(b, whole, sizes, aligns=aligns)
    return b(GridSample, at.x, grid, mode=mode, padding_mode=border, align_corners=int(aligns) or None)


def _sizes(b: Builder, x: Value) -> np.ndarray | None:
    """Return width and height of images, if known."""
    height, width = b.dims(x)[-2:]
    return np.array([width, height], np.float32) if isinstance(width, int) and isinstance(height, int) else None


def _placed(b: Builder, grid: Value, sizes: np.ndarray, *, aligns: bool) -> Value:
    """Convert grid coordinates (-1 to 1) to pixel coordinates, with ncnn's order of operations."""
    one, half = b.like(grid, 1), b.like(grid, 0.5)
    if aligns:
        return b(Mul, b(Mul, b(Add, grid, one), half), b.like(grid, sizes - 1))
    return b(Mul, b(Sub, b(Mul, b(Add, grid, one), b.like(grid, sizes)), one), half)


def _mirrored(b: Builder, coordinates: Value, sizes: np.ndarray, *, aligns: bool) -> Value:
    """Reflect coordinates beyond an edge once, as ncnn does."""
    if aligns:
        far = b.like(coordinates, sizes - 1)
        return b(Sub, far, b(Abs, b(Sub, b(Abs, coordinates), far)))
    far, half = b.like(coordinates, sizes), b.like(coordinates, 0.5)
    return b(Sub, b(Sub, far, b(Abs, b(Sub, b(Abs, b(Add, coordinates, half)), far))), half)


def _middles(b: Builder, whole: Value, sizes: np.ndarray, *, aligns: bool) -> Value:
    """Convert integer pixel coordinates to grid coordinates, -1 to 1, of the pixel centers."""
    factor, offset = _spacing(sizes, aligns=aligns)
    return b(Add, b(Mul, whole, b.like(whole, factor)), b.like(whole, offset))


def _spacing(sizes: np.ndarray, *, aligns: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance of adjacent pixel centers and the coordinate of the first one, on a scale from -1 to 1."""
    if aligns:
        return np.where(sizes > 1, 2 / np.maximum(sizes - 1, 1), 0), np.full_like(sizes, -1)
    return 2 / sizes, 1 / sizes - 1


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@GridSampleView.export_rule("ncnn")
def export_grid_sample(b: Builder, op: GridSampleView) -> Value | None:
    """Export GridSample over height and width; for nearest mode, round coordinates to pixel centers first."""
    grid = op.grid
    kinds, borders = ({name: number for number, name in each.items()} for each in (_MODES, _BORDERS))
    lengths, grid_lengths = lengths_of(b, op.x), lengths_of(b, grid)
    if len(lengths) != 3 or len(grid_lengths) != 3 or op.mode not in kinds or op.padding_mode not in borders:
        return None
    sizes, aligns = _sizes(b, op.x), bool(op.align_corners)
    if op.mode == "nearest" and sizes is not None and not _are_middles(grid, sizes, aligns=aligns):
        grid = _middles(b, b(Round, _placed(b, grid, sizes, aligns=aligns)), sizes, aligns=aligns)
    return emitted(b, "GridSample", op.x, grid, p0=kinds[op.mode], p1=borders[op.padding_mode], p2=int(aligns))


def _are_middles(grid: Value, sizes: np.ndarray, *, aligns: bool) -> bool:
    """Whether coordinates were rounded to pixel centers by `_middles` for images of these sizes."""
    shift = _step(grid, {"Add": _ADD, "Sub": _SUB})
    scale = None if shift is None else _step(shift.x, {"Mul": _MUL})
    if shift is None or scale is None or not _is_rounding(scale.x):
        return False
    factor, offset = _spacing(sizes, aligns=aligns)
    moved = -shift.number if shift.op_type in ("Sub", str(_SUB)) else shift.number
    return np.allclose(scale.number, factor, rtol=1e-6, atol=0) and np.allclose(moved, offset, rtol=0, atol=1e-6)


class _Step(NamedTuple):
    """An element-wise binary operator with a constant: op type, other operand and constant."""

    op_type: str
    x: Value
    number: np.ndarray


_ADD, _SUB, _MUL = 0, 1, 2


def _step(value: Value, words: Mapping[str, int]) -> _Step | None:
    """Return the producer of a value as a `_Step`; `None` for other nodes, or a constant of more than two elements."""
    made = value.producer
    if made is None:
        return None
    own = made.attributes.get("0")
    if not (made.op_type in words or (made.op_type == "BinaryOp" and own in words.values())):
        return None
    op_type = made.op_type if made.op_type in words else str(own)
    if made.op_type == "BinaryOp" and made.attributes.get("1"):
        number = made.attributes.get("2")
        return _Step(op_type, made.operands[0], np.array(number)) if isinstance(number, float) else None
    if len(made.operands) != 2:
        return None
    x, other = made.operands
    storage = _stored(other)
    return None if storage is None or storage.count > len("xy") else _Step(op_type, x, storage.numpy().reshape(-1))


def _stored(value: Value) -> Storage | None:
    made = value.producer
    found = made.attributes.get("@0") if made is not None and made.op_type == "MemoryData" else folded(value)
    return found if isinstance(found, Storage) else None


def _is_rounding(value: Value) -> bool:
    made = value.producer
    is_layer = made is not None and made.op_type == "UnaryOp" and made.attributes.get("0") in _ROUNDED
    return made is not None and (made.op_type in _ROUNDS or is_layer)
