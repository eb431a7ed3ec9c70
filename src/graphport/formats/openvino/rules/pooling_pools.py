"""Pools of OpenVINO's: the largest entry and the mean under a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.convolution_windows import Sliding, with_numbers
from graphport.formats.openvino.rules.pooling_padded import (
    entries_from,
    padded_average_pool,
    padded_max_pool,
    surroundings,
)
from graphport.ops.definitions.arithmetic import Mod
from graphport.ops.definitions.pooling import AveragePool, MaxPool
from graphport.ops.lowering.operands import cast, dtype_of
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_SAME = ("SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Sliding):
    """Attributes of pooling: kernel size, dilations, and rounding of the number of windows."""

    kernel: tuple[int, ...]
    dilations: tuple[int, ...] = ()
    rounding_type: str = "floor"


def _window_reach(kernel: Sequence[int], stated: dict[str, Any]) -> list[int]:
    return [(k - 1) * d + 1 for k, d in zip(kernel, stated["dilations"] or (1,) * len(kernel), strict=True)]


def _as_onnx_window(
    b: Builder, x: Value, kernel: Sequence[int], stated: dict[str, Any], rounding: str, *, needs_numbers: bool = False
) -> dict[str, Any] | None:
    """Return the attributes for ONNX, or `None` if ONNX has no such window.

    A last window that begins after the data counts with rounding `ceil`, but neither with `ceil_torch` nor in ONNX.
    """
    strides, reach = stated["strides"] or (1,) * len(kernel), _window_reach(kernel, stated)
    if stated.get("auto_pad") in _SAME:
        # ONNX Runtime supports automatic padding neither with dilations nor with strides larger than the window.
        is_odd = bool(stated["dilations"]) or any(s > r for s, r in zip(strides, reach, strict=True))
        if not is_odd and not needs_numbers:
            return stated
        found = with_numbers(b, x, kernel, stated)
        if found is None:
            return None
        stated = found
    elif rounding == "floor":
        return stated if _has_supported_pads(kernel, stated) else None
    # Windows inside the data are rounded up as with padding 0.
    stated = {"strides": stated["strides"], "dilations": stated["dilations"], "pads": stated.get("pads")}
    ends: tuple[int, ...] = (stated["pads"] or (0,) * (2 * len(kernel)))[len(kernel) :]
    is_clear = all(q + s <= r for q, s, r in zip(ends, strides, reach, strict=True))
    if rounding == "ceil_torch" or (rounding == "ceil" and is_clear):
        stated |= {"ceil_mode": 1}
    elif rounding == "ceil":
        return _hung_over(b, x, kernel, stated, rounding)
    return stated if _has_supported_pads(kernel, stated) else None


def _has_supported_pads(kernel: Sequence[int], stated: dict[str, Any]) -> bool:
    """Whether ONNX Runtime accepts the padding: it must be smaller than the kernel."""
    pads = stated.get("pads") or ()
    return all(p < k for p, k in zip(pads, (*kernel, *kernel), strict=False))


def _hung_over(
    b: Builder, x: Value, kernel: Sequence[int], stated: dict[str, Any], rounding: str
) -> dict[str, Any] | None:
    """Return the attributes with explicit padding for partial last windows, if it is static and small enough."""
    if not all(isinstance(n, int) for n in b.dims(x)[2:]):
        return None
    around = surroundings(b, x, kernel, stated, rounding)
    padded = stated | {"pads": tuple(int(n) for side in (around.begins, around.ends) for n in side)}  # type: ignore[union-attr]
    return padded if _has_supported_pads(kernel, padded) else None


@Pool.lower("openvino", "opset1.MaxPool")
@Pool.lower("openvino", "opset8.MaxPool")
@Pool.lower("openvino", "opset14.MaxPool")
def max_pool(
    b: Builder, op: Pool, x: Value, *, index_element_type: DType = DType.INT64, axis: int = 0
) -> tuple[Value, ...]:
    """Max pooling; a second result has the indices of the maxima, in the data flattened from `axis` on."""
    if b.count == 1:
        return _largest(b, x, op, None)
    y, indices = _largest(b, x, op, axis_index(axis, len(b.dims(x))))
    return y, cast(b, indices, index_element_type)


def _largest(b: Builder, x: Value, op: Pool, first: int | None) -> tuple[Value, ...]:
    """Max pooling; integer types without ONNX kernel are computed in float64."""
    dtype, kernel, stated = dtype_of(x), op.kernel, op.borders(len(op.kernel))
    wide = cast(b, x, dtype if dtype.is_floating or dtype.bits == 8 else DType.FLOAT64)
    plain = _as_onnx_window(b, x, kernel, stated, op.rounding_type, needs_numbers=first is not None)
    if plain is None:
        around = surroundings(b, x, kernel, stated, op.rounding_type)
        y, *indices = padded_max_pool(b, wide, around, kernel, stated, first=first)
        return (cast(b, y, dtype), *indices)
    y, *indices = b.results(MaxPool, 1 if first is None else 2, wide, kernel_shape=kernel, **plain)
    if first:
        indices = [b(Mod, indices[0], entries_from(b, x, first))]
    return (cast(b, y, dtype), *indices)


@Pool.lower("openvino", "opset1.AvgPool")
@Pool.lower("openvino", "opset14.AvgPool")
@Pool.lower("openvino", "opset16.AvgPool")
def avg_pool(b: Builder, op: Pool, x: Value, *, exclude_pad: bool) -> Value:
    """Average pooling with or without padded elements.

    Elements beyond the input in partial last windows count as padding if there is any padding.
    """
    dtype, kernel, stated = dtype_of(x), op.kernel, op.borders(len(op.kernel))
    wide = cast(b, x, dtype if dtype.is_floating else DType.FLOAT32)
    is_excluded, plain = _mean(b, x, kernel, stated, op.rounding_type, exclude_pad=exclude_pad)
    if plain is None:
        around = surroundings(b, x, kernel, stated, op.rounding_type)
        return cast(b, padded_average_pool(b, wide, around, kernel, stated, exclude_pad=exclude_pad), dtype)
    return cast(b, b(AveragePool, wide, kernel_shape=kernel, count_include_pad=int(not is_excluded), **plain), dtype)


def _mean(
    b: Builder, x: Value, kernel: tuple[int, ...], stated: dict[str, Any], rounding: str, *, exclude_pad: bool
) -> tuple[bool, dict[str, Any] | None]:
    """Return whether padding is excluded, and the attributes for ONNX."""
    if not exclude_pad and rounding != "floor":
        if stated.get("pads"):
            return False, _hung_over(b, x, kernel, stated, rounding)
        if stated.get("auto_pad") in _SAME:
            return False, _as_onnx_window(b, x, kernel, stated, "floor") if _covers(kernel, stated) else None
        return True, _as_onnx_window(b, x, kernel, stated, rounding)
    return exclude_pad, _as_onnx_window(b, x, kernel, stated, rounding)


def _covers(kernel: Sequence[int], stated: dict[str, Any]) -> bool:
    """Whether the windows cover all elements, so that a computed number of windows needs no rounding."""
    strides = stated["strides"] or (1,) * len(kernel)
    return all(s <= r for s, r in zip(strides, _window_reach(kernel, stated), strict=True))
