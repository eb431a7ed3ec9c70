"""NNEF's window borders in ONNX: `pads`, `auto_pad`, or a `Pad` before the operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.padding_borders import check_border, pad_mode, padded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Sub
from graphport.ops.definitions.convolution.window import Window, constant_pads, same_pads, window
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Shape
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(Attributes):
    """Attributes of sliding windows, one entry per axis; empty padding means automatic."""

    border: str = "constant"
    padding: Pairs = ()
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Slide:
    """NNEF's window attributes, one entry per axis of the window; empty `padding` is automatic."""

    kernel: tuple[Dim, ...]
    padding: Pairs
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Sequence[Dim], stated: Sliding) -> Slide:
        """Normalize the attributes; empty ones get defaults.

        Raises:
            ShapeError: an attribute has the wrong number of entries, or one that is not positive.
        """
        rank = len(kernel)
        padding, stride, dilation = stated.padding, stated.stride, stated.dilation
        for what, found in (("padding", padding), ("stride", stride), ("dilation", dilation)):
            if found and len(found) != rank:
                message = f"{what} has {len(found)} values for {rank} axes"
                raise ShapeError(message, f"write {rank} values, or none")
        if any(step < 1 for step in (*stride, *dilation)):
            message = f"stride {list(stride)} and dilation {list(dilation)} must be positive"
            raise ShapeError(message)
        pairs = tuple((int(begin), int(end)) for begin, end in padding)
        return cls(tuple(kernel), pairs, tuple(stride) or (1,) * rank, tuple(dilation) or (1,) * rank)

    @property
    def is_trivial(self) -> bool:
        """Whether explicit padding adds nothing."""
        return bool(self.padding) and not any(begin or end for begin, end in self.padding)

    def amounts(self, dims: Sequence[Dim]) -> Pairs | None:
        """Return the padding before and after axes of sizes `dims`; `None` if it depends on a dynamic dim."""
        if self.padding:
            return self.padding
        axes = zip(dims, self.kernel, self.stride, self.dilation, strict=True)
        found = [same_pads(n, k, s, d, "SAME_UPPER") for n, k, s, d in axes]
        whole = tuple((begin, end) for begin, end in found if isinstance(begin, int) and isinstance(end, int))
        return whole if len(whole) == len(found) else None

    def attributes(self, dims: Sequence[Dim]) -> dict[str, Any]:
        """Return ONNX's attributes for axes of sizes `dims`; `None` for defaults."""
        stated: dict[str, Any] = {
            "strides": self.stride if any(step != 1 for step in self.stride) else None,
            "dilations": self.dilation if any(step != 1 for step in self.dilation) else None,
        }
        if self.padding:
            pads = (*(begin for begin, _ in self.padding), *(end for _, end in self.padding))
            return stated | {"pads": pads if any(pads) else None}
        amounts = None if stated["dilations"] is None else self.amounts(dims)
        if amounts is None:
            return stated | {"auto_pad": "SAME_UPPER"}
        # Not every runtime pads a dilated window by itself.
        return Slide(self.kernel, amounts, self.stride, self.dilation).attributes(dims)

    def unpadded(self) -> Slide:
        """Return the window without padding."""
        return Slide(self.kernel, ((0, 0),) * len(self.kernel), self.stride, self.dilation)


def bordered(b: Builder, x: Value, slide: Slide, border: str, native: str = "constant") -> tuple[Value, Slide]:
    """Pad `x` explicitly unless the operation supports the border; return it with the remaining window.

    Raises:
        ShapeError: the border is unknown.
        UnsupportedError: the padding depends on a dynamic dim.
    """
    check_border(border, native)
    crops = any(begin < 0 or end < 0 for begin, end in slide.padding)
    if slide.is_trivial or (border == native and not crops):
        return x, slide
    dims = b.dims(x)
    amounts = slide.amounts(dims[-len(slide.kernel) :])
    if amounts is None:
        return b(Pad, x, _computed(b, x, slide), mode=pad_mode(border)), slide.unpadded()
    if not any(begin or end for begin, end in amounts):
        return x, slide.unpadded()
    if border == "ignore":
        message = "negative padding of a border that is ignored"
        raise UnsupportedError(message)
    padding = (*[(0, 0)] * (len(dims) - len(amounts)), *amounts)
    return padded(b, x, padding, border), slide.unpadded()


def _computed(b: Builder, x: Value, slide: Slide) -> Value:
    """Compute automatic padding of the last axes of `x` at run time."""
    rank, count = len(b.dims(x)), len(slide.kernel)
    kernel = np.array(static_dims(slide.kernel), np.int64)
    stride = b.constant(np.array(slide.stride, np.int64))
    reach = (kernel - 1) * np.array(slide.dilation, np.int64) + 1
    n = b(Shape, x, start=rank - count)
    # One place less than ceil(n / stride).
    steps = b(Div, b(Sub, n, b.constant([1])), stride)
    total = b(Max, b(Sub, b(Add, b(Mul, steps, stride), b.constant(reach)), n), b.constant([0]))
    begins = b(Div, total, b.constant([2]))
    rest = b.constant(np.zeros(rank - count, np.int64))
    return b(Concat, rest, begins, rest, b(Sub, total, begins), axis=0)


def static_dims(dims: Sequence[Dim]) -> tuple[int, ...]:
    """Return `dims` as integers.

    Raises:
        UnsupportedError: one is symbolic.
    """
    found = tuple(dim for dim in dims if isinstance(dim, int))
    if len(found) != len(dims):
        message = "it depends on an unknown extent"
        raise UnsupportedError(message)
    return found


def emitted_padding(
    dims: Sequence[Dim],
    kernel: Sequence[Dim],
    *,
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    ceil_mode: int = 0,
) -> tuple[Pairs, Window] | None:
    """Return NNEF's padding (empty for automatic) and the window; `None` if it depends on a dynamic dim.

    A partial last window of `ceil_mode` is covered by padding at the end.
    """
    slid = window(dims, kernel, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides, ceil_mode=ceil_mode)
    if auto_pad == "SAME_UPPER":
        return (), slid
    pairs: list[tuple[int, int]] = []
    axes = zip(dims, slid.kernel, slid.strides, slid.dilations, slid.pads, slid.lengths, strict=True)
    for n, k, s, d, (begin, end), out in axes:
        over = (out - 1) * s + (k - 1) * d + 1 - n - begin if ceil_mode else end
        if isinstance(begin, Symbolic) or isinstance(end, Symbolic) or isinstance(over, Symbolic):
            given = (begin, end) if isinstance(begin, int) and isinstance(end, int) else (0, 0)
            pair = (
                constant_pads(k, s, d, auto_pad=auto_pad, pads=given, ceil_mode=ceil_mode)
                if isinstance(k, int)
                else None
            )
            if pair is None:
                return None
            pairs.append(pair)
        else:
            pairs.append((begin, max(end, over)))
    return tuple(pairs), slid


def fact_of(value: Value) -> TensorFact:
    """Return the tensor fact of a value."""
    return value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
