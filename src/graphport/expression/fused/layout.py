"""How a kernel walks over operands of any shape and strides: as few axes as possible, the innermost a long one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]
    Axis = tuple[int, tuple[int, ...]]

_SHORT = 16
"""An innermost axis shorter than this is exchanged for a longer one, even a strided one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The remaining axes: lengths and byte strides, one stride per operand, the result's last."""

    outer: tuple[tuple[int, tuple[int, ...]], ...]
    length: int
    inner: tuple[int, ...]

    def modes(self, sizes: Sequence[int]) -> str:
        """Return the access mode of each operand along the innermost axis, given element sizes in bytes."""
        return "".join(
            "s" if stride == 0 and self.length != 1 else "c" if stride == size or self.length == 1 else "g"
            for stride, size in zip(self.inner, sizes, strict=True)
        )


def layout(shape: Sequence[int], arrays: Sequence[Array]) -> Layout:
    """Return the loop axes and strides for `arrays`, the last of which is the result of shape `shape`; no dim is 0."""
    axes: list[Axis] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        axes.append((extent, tuple(_stride(array, axis - len(shape)) for array in arrays)))
    merged: list[Axis] = []
    for extent, strides in axes:
        if merged and all(outer == inner * extent for outer, inner in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    if not merged:
        return Layout((), 1, tuple(array.itemsize for array in arrays))
    innermost = len(merged) - 1
    if merged[innermost][0] < _SHORT:
        innermost = max(range(len(merged)), key=lambda axis: (merged[axis][0] >= _SHORT, merged[axis][0], axis))
    length, inner = merged.pop(innermost)
    return Layout(tuple(merged), length, inner)


def _stride(array: Array, axis: int) -> int:
    """The bytes from one element to the next along `axis`, counted from the end; 0 where the array is repeated."""
    if -axis > array.ndim or array.shape[axis] == 1:
        return 0
    return array.strides[axis]
