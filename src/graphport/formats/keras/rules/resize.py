"""Resizing, cropping and preprocessing of images in Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.binding import Layer, in_compute_type, layer, pair
from graphport.formats.keras.rules.tensors import binary, to_channels_first, to_data_format
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.resize_by_axes import Sampling, resized_by_axes
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Round, Sqrt, Sub
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Identity, Shape
from graphport.ops.definitions.resize import Resize
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import cast, dtype_of, ends_of, reshaped, sizes, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MODES: dict[str, dict[str, Any]] = {
    "nearest": {"mode": "nearest", "nearest_mode": "round_prefer_ceil", "coordinate_transformation_mode": "half_pixel"},
    "bilinear": {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
    "bicubic": {
        "mode": "cubic",
        "cubic_coeff_a": -0.5,
        "exclude_outside": 1,
        "coordinate_transformation_mode": "half_pixel",
    },
}
"""Attributes of Resize by interpolation of TensorFlow with half-pixel centers."""
_RANDOM = (
    *("RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomElasticTransform"),
    *("RandomErasing", "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert"),
    *("RandomPerspective", "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness"),
    *("RandomShear", "RandomTranslation", "RandomZoom", "RandomHeight", "RandomWidth", "MixUp", "CutMix", "AugMix"),
    "RandAugment",
)


def resized(b: Builder, x: Value, size: Any, interpolation: str, *, antialias: bool = False) -> Value:
    """Images [N, C, H, W] in another size, as `tf.image.resize` computes them.

    Raises:
        UnsupportedError: the interpolation has no operator.
    """
    mode = _MODES.get(interpolation)
    if mode is None or antialias:
        message = f"the interpolation {interpolation!r}{' with antialias' if antialias else ''}"
        raise UnsupportedError(message)
    head, tail = b.dims(x)[:2], b.dims(x)[2:]
    if interpolation == "bicubic" and is_sequence(size) and all(isinstance(dim, int) for dim in tail):
        # ONNX Runtime computes cubic interpolation with the channels in front only.
        return resize_exactly(b, x, size, interpolation)
    if is_sequence(size) and all(isinstance(dim, int) for dim in head):
        target = vector(b, [*(dim for dim in head if isinstance(dim, int)), *size])
    else:
        last: Any = vector(b, list(size)) if is_sequence(size) else size
        target = b(Concat, b(Shape, x, end=2), last, axis=0)
    return b(Resize, x, None, None, target, **mode)


def resize_exactly(b: Builder, x: Value, size: Any, interpolation: str) -> Value:
    """Resize one axis at a time, by matrices with the weights of exact positions."""
    mode = _MODES[interpolation]
    stated = Sampling(
        coordinates=mode["coordinate_transformation_mode"],
        mode=mode["mode"],
        nearest=mode.get("nearest_mode", "round_prefer_floor"),
        a=mode.get("cubic_coeff_a", -0.75),
        excludes_outside=bool(mode.get("exclude_outside")),
        antialias=False,
    )
    return resized_by_axes(b, x, (None, None, vector(b, list(size))), stated, (2, 3), "stretch")


@layer("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(at: Layer, *, size: Any = 2, data_format: str | None = None, interpolation: str = "nearest") -> Value:
    """Elements repeated along the spatial dims, or interpolated."""
    b, spatial = at.b, at.rank - 2
    factors = pair(size, spatial, "size")
    x = to_channels_first(b, at.x, data_format)
    if interpolation != "nearest":
        scaled = [n * f if isinstance(n, int) else n for n, f in zip(b.dims(x)[2:], factors, strict=True)]
        if all(isinstance(n, int) for n in scaled):
            target: Any = [int(n) for n in scaled if isinstance(n, int)]
        else:
            target = b(Mul, b(Shape, x, start=2), vector(b, factors))
        return to_data_format(b, in_compute_type(at, resized(b, x, target, interpolation)), data_format)
    scales = b.constant(np.array([1.0, 1.0, *factors], np.float32))
    mode = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return to_data_format(b, b(Resize, x, None, scales, None, **mode), data_format)


def _images(at: Layer, data_format: str | None) -> Value:
    """The images in the compute type, channels first."""
    return to_channels_first(at.b, cast(at.b, at.x, at.dtype), data_format)


@layer("Resizing")
def resizing(
    at: Layer,
    *,
    height: int = 1,
    width: int = 1,
    interpolation: str = "bilinear",
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    antialias: bool | None = None,
    data_format: str | None = None,
) -> Value:
    """Images in another size, whose aspect ratio may be kept by cropping or padding."""
    del fill_mode
    b, x, own = at.b, _images(at, data_format), dtype_of(at.x)
    if at.rank != 4:
        message = f"images of rank {at.rank}"
        raise UnsupportedError(message)
    if crop_to_aspect_ratio:
        x = _cropped_to_ratio(b, x, height, width)
    elif pad_to_aspect_ratio:
        x = _padded_to_ratio(b, x, height, width, fill_value)
    if antialias is False and not own.is_floating:
        sizes(b.dims(x)[2:], "images of integers")
        y = resize_exactly(b, x, [height, width], interpolation)
        # Since Keras 3.6, which introduced `antialias`, the dtype of integers is preserved.
        low, high = ends_of(own)
        y = cast(b, b(Clip, b(Round, y), b.like(y, low), b.like(y, high)), own)
        return to_data_format(b, y, data_format)
    y = resized(b, x, [height, width], interpolation, antialias=bool(antialias))
    return to_data_format(b, in_compute_type(at, y), data_format)


def _cropped_to_ratio(b: Builder, x: Value, height: int, width: int) -> Value:
    """The largest window in the middle with the aspect ratio of the target."""
    tall, wide = sizes(b.dims(x, 4)[2:], "the images")
    crop_height = min(tall, int(float(wide * height) / width)) or tall
    crop_width = min(wide, int(float(tall * width) / height)) or wide
    top, left = int(float(tall - crop_height) / 2), int(float(wide - crop_width) / 2)
    ends = [top + crop_height, left + crop_width]
    return b(Slice, x, [top, left], ends, [2, 3])


def _padded_to_ratio(b: Builder, x: Value, height: int, width: int, fill_value: float) -> Value:
    """The images in the middle of the smallest frame with the aspect ratio of the target."""
    tall, wide = sizes(b.dims(x, 4)[2:], "the images")
    pad_height = max(tall, int(float(wide * height) / width))
    pad_width = max(wide, int(float(tall * width) / height))
    top, left = int(float(pad_height - tall) / 2), int(float(pad_width - wide) / 2)
    pads = [0, 0, top, left, 0, 0, top, left]
    return b(Pad, x, pads, fill_value)


@layer("CenterCrop")
def center_crop(at: Layer, *, height: int = 1, width: int = 1, data_format: str | None = None) -> Value:
    """The middle of the images; images that are smaller are cropped to the aspect ratio and resized."""
    b, x = at.b, _images(at, data_format)
    dims = b.dims(x)[2:]
    if all(isinstance(n, int) for n in dims):
        tall, wide = sizes(dims)
        if tall < height or wide < width:
            x = _cropped_to_ratio(b, x, height, width)
            return to_data_format(b, in_compute_type(at, resized(b, x, [height, width], "bilinear")), data_format)
        top, left = (tall - height) // 2, (wide - width) // 2
        y = b(Slice, x, [top, left], [top + height, left + width], [2, 3])
        return to_data_format(b, y, data_format)
    starts: list[Value] = []
    for axis, target in ((2, height), (3, width)):
        rest = b(Sub, extent(b, x, axis), [target])
        starts.append(b(Div, rest, [2]))
    start = b(Concat, *starts, axis=0)
    y = b(Slice, x, start, b(Add, start, [height, width]), [2, 3])
    return to_data_format(b, y, data_format)


@layer(*_RANDOM)
def random_layer(
    at: Layer,
    *,
    data_format: str | None = None,
) -> Value:
    """The images in the compute type; augmentation is for training."""
    del data_format
    return at.b(Identity, cast(at.b, at.x, at.dtype))


@layer("Normalization", weights="~mean:!mean ~variance:!mean", mask="keep")
def normalization_layer(
    at: Layer, *, axis: Any = -1, mean: Any = None, variance: Any = None, invert: bool = False
) -> Value:
    """`(x - mean) / max(sqrt(variance), 1e-7)` with statistics of the data or of the configuration."""
    b, x, rank = at.b, cast(at.b, at.x, at.dtype), at.rank
    given = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = [at.axis(each) for each in given]
    shape = [at.dims()[each] if each in axes else 1 for each in range(rank)]
    center = _statistic(at, "mean", mean, shape)
    spread = binary(b, Max, b(Sqrt, _statistic(at, "variance", variance, shape)), 1e-7)
    return b(Add, b(Mul, x, spread), center) if invert else b(Div, b(Sub, x, center), spread)


def _statistic(at: Layer, role: str, given: Any, shape: Sequence[Any]) -> Value:
    """The mean or variance, shaped to broadcast against the input."""
    b, stored = at.b, at.get(role)
    if stored is None:
        values = np.asarray(given, at.dtype.numpy)
        return b.constant(values if values.size == 1 else values.reshape(sizes(shape)), at.dtype)
    return reshaped(b, cast(b, stored, at.dtype), sizes(shape, "the normalized axes"))
