"""Bringing a tensor into the shape that ONNX's windows want: two axes in front that none slides over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.formats.nnef.rules.convolution_borders import Slide, Sliding
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.reshape import Squeeze, Transpose, Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(Sliding):
    """Attributes of pooling and box filters, whose windows slide over all axes."""

    size: Shaped


@dataclass(frozen=True, slots=True)
class Arranged:
    """A tensor transposed and reshaped to have two leading axes without window, and the inverse transform."""

    x: Value
    slide: Slide
    order: tuple[int, ...]
    added: int

    def window_dims(self, shape: Shaped) -> Shaped:
        """Return the dims of `shape` (one per NNEF axis) for the axes of the window.

        Raises:
            ShapeError: it does not have one positive entry for each axis.
        """
        if shape and (len(shape) != len(self.order) - self.added or any(n < 1 for n in shape)):
            message = f"output_shape {list(shape)} for a tensor of rank {len(self.order) - self.added}"
            raise ShapeError(message, "write one positive value per axis")
        return tuple(shape[axis - self.added] if axis >= self.added else 1 for axis in self.order[2:]) if shape else ()

    def restored(self, b: Builder, y: Value) -> Value:
        """Return `y`, whose axes are arranged like the axes of `x`, with the original axes."""
        if self.order != tuple(range(len(self.order))):
            y = b(Transpose, y, perm=tuple(self.order.index(axis) for axis in range(len(self.order))))
        return b(Squeeze, y, b.constant(list(range(self.added)))) if self.added else y


def arranged(b: Builder, input: Value, stated: Pooling) -> Arranged:
    """Transpose and reshape `input` so that it has two leading axes outside the window, as ONNX's pooling requires.

    Raises:
        ShapeError: an attribute has not one positive entry per axis.
    """
    rank, size = len(b.dims(input)), stated.size
    if len(size) != rank or any(k < 1 for k in size):
        message = f"size {list(size)} for a tensor of rank {rank}"
        raise ShapeError(message, "write one positive value per axis")
    slide = Slide.of(size, stated)
    pairs = slide.padding or ((0, 0),) * rank
    slid = [axis for axis in range(rank) if size[axis] > 1 or slide.stride[axis] > 1 or any(pairs[axis])]
    still = [axis for axis in range(rank) if axis not in slid]
    added = max(2 - len(still), 3 - rank, 0)
    x = b(Unsqueeze, input, b.constant(list(range(added)))) if added else input
    front = [*range(added), *(axis + added for axis in still)][:2]
    order = (*front, *(axis for axis in range(rank + added) if axis not in front))
    if order != tuple(range(len(order))):
        x = b(Transpose, x, perm=order)
    indices = [axis - added for axis in order[2:]]
    return Arranged(x, _select_axes(slide, indices), order, added)


def _select_axes(slide: Slide, axes: list[int]) -> Slide:
    """Return the window over `axes`; a negative axis was inserted and has size 1."""
    kernel = tuple(slide.kernel[axis] if axis >= 0 else 1 for axis in axes)
    padding = tuple(slide.padding[axis] if axis >= 0 else (0, 0) for axis in axes) if slide.padding else ()
    stride = tuple(slide.stride[axis] if axis >= 0 else 1 for axis in axes)
    return Slide(kernel, padding, stride, tuple(slide.dilation[axis] if axis >= 0 else 1 for axis in axes))
