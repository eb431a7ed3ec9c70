"""Operations on windows: pools, convolutions, patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.openvino.cases import Case, constant, one
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)

FLOATS = ("float32", "float32", "float16")
PLUGIN = {"judges": ("plugin",)}
"""The reference implementation has no windows, or writes where it should not."""


def windows(r: Draw, rank: int, kernel: tuple[int, ...], *, pads: bool = True) -> dict[str, Any]:
    """Draw strides, and padding below the kernel size in one of its forms."""
    auto = r.one(None, "explicit", "valid", "same_upper", "same_lower", "explicit")
    # Where padding is computed, OpenVINO writes zeros, and its plugin reads something else.
    pads = pads and auto in (None, "explicit")
    begin = tuple(r.number(0, n - 1) if pads else 0 for n in kernel)
    end = tuple(r.number(0, n - 1) if pads else 0 for n in kernel)
    return {
        "strides": r.numbers(1, 3, rank),
        "pads_begin": begin,
        "pads_end": end,
        **({} if auto is None else {"auto_pad": auto}),
    }


def rounding(r: Draw, flags: dict[str, Any], *more: str) -> dict[str, str]:
    """Draw the rounding type; "ceil" only if the last window starts on data."""
    is_clear = all(s <= k - q for s, k, q in zip(flags["strides"], flags["kernel"], flags["pads_end"], strict=True))
    choice = r.one(None, "floor", *(["ceil", "ceil", *more] if is_clear else []))
    return {} if choice is None else {"rounding_type": choice}


def picture(r: Draw, rank: int, *, channels: int | None = None, least: int = 4) -> tuple[int, ...]:
    return (r.number(1, 2), r.number(1, 3) if channels is None else channels, *r.numbers(least, 8, rank))


@of("opset1.AvgPool", "opset14.AvgPool", "opset16.AvgPool")
def average_pool(r: Draw, op_type: str) -> Case:
    rank = r.one(1, 2, 2, 3)
    kernel = r.numbers(1, 3, rank)
    flags = windows(r, rank, kernel)
    flags |= {"kernel": kernel, "exclude_pad": r.one(True, False)}
    flags |= rounding(r, flags, *(["ceil_torch"] if op_type != "opset1.AvgPool" else []))
    if op_type == "opset16.AvgPool":
        flags["dilations"] = r.numbers(1, 2, rank)
    return one(op_type, r.operand(r.reals(picture(r, rank, least=6), r.one(*FLOATS))), case=PLUGIN, **flags)


@of("opset1.MaxPool")
def max_pool(r: Draw, op_type: str) -> Case:
    rank = r.one(1, 2, 2, 3)
    kernel = r.numbers(1, 3, rank)
    flags = windows(r, rank, kernel) | {"kernel": kernel}
    flags |= rounding(r, flags)
    return one(op_type, r.operand(r.reals(picture(r, rank, least=6), r.one(*FLOATS))), case=PLUGIN, **flags)


@of("opset8.MaxPool", "opset14.MaxPool")
def max_pool_with_places(r: Draw, op_type: str) -> Case:
    rank = r.one(1, 2, 2, 3)
    kernel = r.numbers(1, 3, rank)
    flags = windows(r, rank, kernel) | {"kernel": kernel}
    flags |= rounding(r, flags, *(["ceil_torch"] if op_type == "opset14.MaxPool" else []))
    # For a dilated window, the plugin's automatic padding disagrees with the shapes.
    flags["dilations"] = r.numbers(1, 1 if "same" in flags.get("auto_pad", "") else 2, rank)
    if r.chance():
        flags["index_element_type"] = r.one("i32", "i64")
    if r.chance():
        flags["axis"] = r.number(0, rank + 1)
    kept = PLUGIN | ({"kept": (0,)} if r.chance(0.3) else {})
    x = r.operand(r.reals(picture(r, rank, least=6), r.one(*FLOATS)))
    return one(op_type, x, results=2, case=kept, **flags)


@of("opset8.AdaptiveAvgPool", "opset8.AdaptiveMaxPool")
def adaptive_pool(r: Draw, op_type: str) -> Case:
    rank = r.one(1, 2, 3)
    sizes = r.operand(np.array(r.numbers(1, 6, rank), r.one("int64", "int32")), constant=1)
    x = r.operand(r.reals(picture(r, rank, least=1)), dynamic=0)
    if op_type == "opset8.AdaptiveAvgPool":
        return one(op_type, x, sizes, case=PLUGIN)
    return one(op_type, x, sizes, results=2, case=PLUGIN, index_element_type="i32")


def _filters(r: Draw, shape: tuple[int, ...], dtype: str) -> Any:
    return r.operand(r.reals(shape, dtype), constant=0.7, dynamic=0)


@of("opset1.Convolution", "opset1.GroupConvolution")
def convolution(r: Draw, op_type: str) -> Case:
    rank, dtype = r.one(1, 2, 2, 3), r.one(*FLOATS)
    kernel = r.numbers(1, 3, rank)
    flags = windows(r, rank, kernel) | {"dilations": r.numbers(1, 2, rank)}
    groups, fed, made = r.number(1, 3), r.number(1, 3), r.number(1, 3)
    if op_type == "opset1.Convolution":
        operands = r.reals(picture(r, rank, channels=fed, least=6), dtype), (made, fed, *kernel)
    else:
        operands = r.reals(picture(r, rank, channels=groups * fed, least=6), dtype), (groups, made, fed, *kernel)
    return one(
        op_type, r.operand(operands[0]), _filters(r, operands[1], dtype), case=PLUGIN | {"tolerance": 1e-3}, **flags
    )


@of("opset1.BinaryConvolution")
def signs(r: Draw, op_type: str) -> Case:
    # The plugin packs the bits of FakeQuantize alone; matching bits are counted by definition.
    channels, maps = r.number(1, 3), r.number(1, 3) * 8
    x, edge = r.reals((r.number(1, 2), channels, *r.numbers(4, 6, 2))), r.one(0, 1, -1)
    filters = r.integers((maps, channels, 3, 3), 0, 1, "uint8")
    strides, dilations, low, high = r.numbers(1, 2, 2), r.numbers(1, 2, 2), r.numbers(1, 2, 2), r.numbers(1, 2, 2)
    pads = ((0, 0), (0, 0), *zip(low, high, strict=True))
    wide = np.pad(np.where(x > 0, 1, -1), pads, constant_values=edge)
    reach = tuple(2 * step + 1 for step in dilations)
    places = np.lib.stride_tricks.sliding_window_view(wide, reach, axis=(2, 3))
    taken = places[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    bits = np.unpackbits(np.packbits(filters), bitorder="little").reshape(filters.shape).astype(int) * 2 - 1
    expected = np.einsum("nchwij,ocij->nohw", taken, bits).astype(np.float32)
    flags: dict[str, Any] = {"mode": "xnor-popcount", "pad_value": float(edge), "auto_pad": "explicit"}
    flags |= {"strides": strides, "dilations": dilations, "pads_begin": low, "pads_end": high}
    return one(op_type, r.operand(x), constant(filters), case={"expected": (expected,)}, **flags)


@of("opset1.ConvolutionBackpropData", "opset1.GroupConvolutionBackpropData")
def transposed_convolution(r: Draw, op_type: str) -> Case:
    rank, dtype = r.one(1, 2, 2, 3), "float32"
    kernel = r.numbers(1, 3, rank)
    flags = windows(r, rank, kernel) | {"dilations": r.numbers(1, 2, rank)}
    if r.chance():
        flags["output_padding"] = tuple(r.number(0, n - 1) for n in flags["strides"])
    groups, fed, made = r.number(1, 3), r.number(1, 3), r.number(1, 3)
    is_grouped = "Group" in op_type
    x = r.reals(picture(r, rank, channels=fed * groups if is_grouped else fed), dtype)
    shape = (groups, fed, made, *kernel) if is_grouped else (fed, made, *kernel)
    size: list[Any] = []
    if r.chance(0.3):
        flags["auto_pad"] = r.one("same_upper", "same_lower", "valid", "explicit")
        sizes = [n * s + r.number(0, 1) for n, s in zip(x.shape[2:], flags["strides"], strict=True)]
        size = [constant(np.array(sizes, r.one("int64", "int32")))]
    data = r.operand(x, dynamic=0 if size else 0.3)
    return one(op_type, data, _filters(r, shape, dtype), *size, case=PLUGIN | {"tolerance": 1e-3}, **flags)


@of("opset1.DeformableConvolution", "opset8.DeformableConvolution")
def bent_convolution(r: Draw, op_type: str) -> Case:
    kernel, strides, dilations = r.numbers(1, 3, 2), r.numbers(1, 2, 2), r.numbers(1, 2, 2)
    begin, end = r.numbers(0, 1, 2), r.numbers(0, 1, 2)
    group, bent = r.number(1, 2), r.number(1, 2)
    fed = group * bent * r.number(1, 2)
    x = r.reals((r.number(1, 2), fed, *r.numbers(6, 8, 2)))
    sizes = zip(x.shape[2:], kernel, strides, dilations, begin, end, strict=True)
    places = tuple((n + b + e - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, e in sizes)
    offsets = r.reals((x.shape[0], 2 * bent * kernel[0] * kernel[1], *places))
    filters = r.reals((group * r.number(1, 2), fed // group, *kernel))
    flags: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end}
    flags |= {"group": group, "deformable_group": bent}
    mask: list[Any] = []
    if op_type == "opset8.DeformableConvolution":
        flags |= {"bilinear_interpolation_pad": r.one(True, False)} if r.chance() else {}
        if r.chance():
            mask = [r.random.random((x.shape[0], bent * kernel[0] * kernel[1], *places)).astype(np.float32)]
    return one(
        op_type,
        r.operand(x),
        offsets,
        _filters(r, filters.shape, "float32"),
        *mask,
        case=PLUGIN | {"tolerance": 1e-3},
        **flags,
    )


@of("opset15.Col2Im")
def columns(r: Draw, op_type: str) -> Case:
    kernel, strides, dilations = r.numbers(1, 3, 2), r.numbers(1, 2, 2), r.numbers(1, 2, 2)
    begin, end, size = r.numbers(0, 2, 2), r.numbers(0, 2, 2), r.numbers(5, 9, 2)
    parts = zip(size, kernel, strides, dilations, begin, end, strict=True)
    count = int(np.prod([(n + b + e - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, e in parts]))
    front, kind = r.one((), (2,), (3,)), r.one("int64", "int32")
    x = r.reals((*front, 2 * kernel[0] * kernel[1], count))
    flags = {"strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end}
    numbers = [r.operand(np.array(each, kind), constant=0.9, dynamic=0) for each in (size, kernel)]
    return one(op_type, r.operand(x), *numbers, case=PLUGIN, **flags)


@of("opset3.ExtractImagePatches")
def patches(r: Draw, op_type: str) -> Case:
    flags = {"sizes": r.numbers(1, 3, 2), "strides": r.numbers(1, 4, 2), "rates": r.numbers(1, 2, 2)}
    flags["auto_pad"] = r.one("valid", "same_upper", "same_lower")
    x = r.operand(r.tensor(picture(r, 2, least=5), r.one("float32", "int32", "float16")), dynamic=0)
    return one(op_type, x, **flags)
