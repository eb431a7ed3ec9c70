"""Window parameters of Caffe: one number for all axes, one per axis, or height and width by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from graphport.ops.declare import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from graphport.ops.definitions.convolution.window import Window

Stated: TypeAlias = "tuple[tuple[int, ...], int | None, int | None]"
"""The repeated field, and the separate fields for height and width; `None` if absent."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A window; each field has one element per axis."""

    kernel: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    def attributes(self) -> dict[str, Any]:
        """Return the window as ONNX attributes; `None` for a default value."""
        return {
            "kernel_shape": self.kernel,
            "pads": (*self.pad, *self.pad) if any(self.pad) else None,
            "strides": self.stride if any(step != 1 for step in self.stride) else None,
            "dilations": self.dilation if any(step != 1 for step in self.dilation) else None,
        }


def frame(rank: int, *, kernel: Stated, pad: Stated, stride: Stated, dilation: tuple[int, ...] = ()) -> Frame:
    """Return the window over `rank` axes.

    Raises:
        ShapeError: an entry is missing, not positive, or one of too many.
    """
    found = Frame(
        _expand_entries("kernel_size", kernel, rank, None),
        _expand_entries("pad", pad, rank, 0),
        _expand_entries("stride", stride, rank, 1),
        _expand_entries("dilation", (dilation, None, None), rank, 1),
    )
    if min((*found.kernel, *found.stride, *found.dilation), default=1) < 1:
        message = f"kernel {found.kernel}, stride {found.stride} and dilation {found.dilation} must be positive"
        raise ShapeError(message)
    return found


def _expand_entries(what: str, stated: Stated, rank: int, default: int | None) -> tuple[int, ...]:
    listed, height, width = stated
    if height is not None or width is not None:
        if listed or rank != 2:
            message = f"{what} by height and width" + (" and as a list" if listed else f" for {rank} axes")
            raise ShapeError(message, "set it in one way")
        default_entry = default or 0
        return (default_entry if height is None else height, default_entry if width is None else width)
    if not listed:
        if default is None:
            message = f"missing {what}"
            raise ShapeError(message, "set one value for all axes, or one per axis")
        return (default,) * rank
    if len(listed) not in (1, rank):
        message = f"{what} has {len(listed)} values for {rank} axes"
        raise ShapeError(message, f"1 or {rank}")
    return listed * rank if len(listed) == 1 else listed


def emitted_window(slid: Window) -> dict[str, Any]:
    """Return Caffe's window parameters; `None` for defaults.

    Raises:
        UnsupportedError: padding is asymmetric or depends on a dynamic dim.
    """
    kernel = tuple(k for k in slid.kernel if isinstance(k, int))
    pad = tuple(begin for begin, end in slid.padding or () if begin == end and begin >= 0)
    if len(kernel) != len(slid.kernel) or len(pad) != len(slid.pads):
        message = f"a kernel of {slid.kernel} padded by {slid.pads}: padding must be symmetric"
        raise UnsupportedError(message)
    return {
        "kernel_size": _short(kernel),
        "pad": _short(pad) if any(pad) else None,
        "stride": _short(slid.strides) if any(step != 1 for step in slid.strides) else None,
        "dilation": _short(slid.dilations) if any(step != 1 for step in slid.dilations) else None,
    }


def _short(entries: tuple[int, ...]) -> tuple[int, ...]:
    """Return `entries`, shortened to one entry if all are equal."""
    return entries[:1] if len(set(entries)) == 1 else entries
