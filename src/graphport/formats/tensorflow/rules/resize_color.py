"""Colors of images in TensorFlow: channels last, values from 0 to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Floor, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Less, LessOrEqual, Where
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean, ReduceMin
from graphport.ops.definitions.reshape import Concat
from graphport.ops.lowering.operands import as_scalar, cast, dtype_of, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _channels(b: Builder, x: Value) -> list[Value]:
    return [b(Slice, x, [n], [n + 1], [-1]) for n in range(3)]


def _hue(b: Builder, x: Value, largest: Value, width: Value) -> Value:
    """The hue of colors, from 0 to 1, from their largest channel and the width of their range; 0 for gray."""
    red, green, blue = _channels(b, x)
    zero = b.like(x, 0)
    is_gray = b(LessOrEqual, width, zero)
    share = b(Div, b.like(x, 1 / 6), b(Where, is_gray, 1, width))
    sides = [b(Mul, share, b(Sub, *pair)) for pair in ((green, blue), (blue, red), (red, green))]
    hue = b(Where, b(Equal, green, largest), b(Add, sides[1], 2 / 6), b(Add, sides[2], 4 / 6))
    hue = b(Where, b(Equal, red, largest), sides[0], hue)
    hue = b(Where, is_gray, zero, hue)
    return b(Where, b(Less, hue, zero), b(Add, hue, 1), hue)


def _hue_value_width(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    largest, smallest = (b(reduction, x, vector(b, [-1])) for reduction in (ReduceMax, ReduceMin))
    width = b(Sub, largest, smallest)
    return _hue(b, x, largest, width), largest, width


def _ramps(b: Builder, hue: Value) -> Value:
    """The share of each channel of a pure color."""
    six = b(Mul, hue, 6)
    # |6 h - center| up to an offset, with a sign.
    centers, signs, offsets = (
        b.constant(np.array(each), dtype_of(hue)) for each in ([3, 2, 4], [1, -1, -1], [-1, 2, 2])
    )
    ramps = b(Add, b(Mul, b(Abs, b(Sub, six, centers)), signs), offsets)
    return b(Min, b(Max, ramps, 0), 1)


@operator("RGBToHSV")
def rgb_to_hsv(b: Builder, x: Value) -> Value:
    """Colors as hue, saturation and value."""
    return b(Concat, *_hue_saturation_value(b, x), axis=-1)


def _hue_saturation_value(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    hue, value, width = _hue_value_width(b, x)
    is_lit = b(Less, 0, value)
    saturation = b(Where, is_lit, b(Div, width, b(Where, is_lit, value, 1)), 0)
    return hue, saturation, value


@operator("HSVToRGB")
def hsv_to_rgb(b: Builder, x: Value) -> Value:
    """Hue, saturation and value as red, green and blue."""
    return _rgb(b, *_channels(b, x))


def _rgb(b: Builder, hue: Value, saturation: Value, value: Value) -> Value:
    white = b(Sub, 1, saturation)
    return b(Mul, b(Add, white, b(Mul, saturation, _ramps(b, hue))), value)


@operator("AdjustSaturation")
def adjust_saturation(b: Builder, x: Value, scale: Value) -> Value:
    """Colors with the saturation multiplied by a factor."""
    hue, saturation, value = _hue_saturation_value(b, x)
    scaled = b(Mul, saturation, cast(b, as_scalar(b, scale), dtype_of(x)))
    return _rgb(b, hue, b(Min, b(Max, scaled, 0), 1), value)


@operator("AdjustHue")
def adjust_hue(b: Builder, x: Value, delta: Value) -> Value:
    """Colors with `delta` added to the hue, modulo 1."""
    hue, value, width = _hue_value_width(b, x)
    turned = b(Add, hue, cast(b, as_scalar(b, delta), dtype_of(x)))
    turned = b(Sub, turned, b(Floor, turned))
    return b(Add, b(Sub, value, width), b(Mul, width, _ramps(b, turned)))


@operator("AdjustContrastv2")
def adjust_contrast(b: Builder, x: Value, factor: Value) -> Value:
    """The difference of each pixel from the mean of its channel, multiplied by a factor."""
    mean = b(ReduceMean, x, [-3, -2])
    return b(Add, b(Mul, b(Sub, x, mean), cast(b, as_scalar(b, factor), dtype_of(x))), mean)
