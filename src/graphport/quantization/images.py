"""Calibration samples from a folder of images: decoded, cropped, scaled and normalized one by one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.facts import TensorFact
from graphport.core.packages import install, is_there
from graphport.core.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Value

Array: TypeAlias = "np.ndarray[Any, Any]"
Layout = Literal["NCHW", "NHWC"]

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})
"""Extensions of image files."""
_MODES = {1: "L", 3: "RGB"}
_MAX_PIXELS = 1 << 28
"""Maximum number of pixels of an image before scaling."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """A folder of images, and their preprocessing.

    The largest centered rectangle with the proportions of the input is scaled to the input size. A pixel `p` from 0 to
    `white` is normalized to `(p - mean) / std`.

    Attributes:
        folder: images are used in the order of their names.
        size: height and width, or one number for both; the input's if `None`.
        mean: per channel, or one for all.
        std: likewise.
        white: value of a white pixel before normalization: 1 or 255.
        layout: channels-first or channels-last; from the shape of the input if `None`.
    """

    folder: str | Path
    size: int | tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    white: float = 1.0
    layout: Layout | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PictureColumn:
    """Images as the data of an input, decoded on access."""

    files: tuple[Path, ...]
    size: tuple[int, int]
    channels: int
    mean: Array
    std: Array
    white: float
    layout: Layout
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape."""
        extents = (self.channels, *self.size) if self.layout == "NCHW" else (*self.size, self.channels)
        return (len(self.files), *extents)

    def rows(self) -> Iterator[Array]:
        """Iterate over the images in order."""
        for file in self.files:
            pixels = self._decoded(file).reshape(*self.size, self.channels)
            if self.dtype.kind in "ui":
                numbers: Array = pixels.astype(self.dtype)
            else:
                scaled = pixels.astype(np.float32) * np.float32(self.white / 255)
                numbers = ((scaled - self.mean) / self.std).astype(self.dtype)
            yield np.ascontiguousarray(numbers.transpose(2, 0, 1)) if self.layout == "NCHW" else numbers

    def _decoded(self, file: Path) -> Array:
        # Pillow's types are unknown if it is not installed.
        image: Any = import_module("PIL.Image")
        height, width = self.size
        try:
            with open_regular(file) as stream, image.open(stream) as picture:
                if picture.width * picture.height > _MAX_PIXELS:
                    raise _corrupt_error(file, f"the image has {picture.width} x {picture.height} pixels")
                # The excess on two sides is cropped.
                wide = min(picture.width, picture.height * width / height)
                high = min(picture.height, picture.width * height / width)
                left, top = (picture.width - wide) / 2, (picture.height - high) / 2
                converted = picture.convert(_MODES[self.channels])
                made = converted.resize(
                    (width, height), image.Resampling.BILINEAR, (left, top, left + wide, top + high)
                )
                return np.asarray(made, np.uint8)
        # Corrupt or oversized images raise subclasses of these.
        except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
            raise _corrupt_error(file, str(error)) from error


def pictures_in(folder: Path) -> list[Path]:
    """Return the images of a folder in the order of their names."""
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in ENDINGS and each.is_file())


def column_of(graph: Graph, given: Pictures) -> dict[str, PictureColumn]:
    """Return the data of the image input.

    Raises:
        DiagnosticError: QUANT0001 there are none, or the decoder is not installed; QUANT0002 the model has no single
            input for such images.
    """
    folder = Path(given.folder)
    files = pictures_in(folder) if folder.is_dir() else []
    if not files:
        message = f"no images in {folder}"
        raise DiagnosticError(Diagnostic("QUANT0001", message, Span(Source(str(folder))), ", ".join(sorted(ENDINGS))))
    if not is_there("PIL"):
        message = "images cannot be decoded: Pillow is not installed"
        raise DiagnosticError(Diagnostic("QUANT0001", message, None, install("pillow")))
    able = [(value, found) for value in graph.inputs if (found := _layout(value, given.layout)) is not None]
    if len(graph.inputs) != 1 or len(able) != 1:
        message = f"images require a model with one input of one or three channels, not {_emitted(graph)}"
        remedy = "pass an .npz with an array for each input, or set the layout (--layout)"
        raise DiagnosticError(Diagnostic("QUANT0002", message, None, remedy))
    value, (layout, channels) = able[0]
    size = _size(value, given.size, layout)
    mean, std = _per_channel(given.mean, channels, "mean"), _per_channel(given.std, channels, "std")
    if np.any(std <= 0):
        raise DiagnosticError(Diagnostic("QUANT0004", "a standard deviation of pixels (std) is not positive"))
    fact = value.fact
    dtype = fact.dtype.numpy if isinstance(fact, TensorFact) and fact.dtype is not None else np.dtype(np.float32)
    return {value.name: PictureColumn(tuple(files), size, channels, mean, std, given.white, layout, dtype)}


def refuse_bare(path: Path) -> None:
    """Reject a folder of images without preprocessing options.

    Raises:
        DiagnosticError: QUANT0001 it is one.
    """
    if next(iter(pictures_in(path)), None) is not None:
        message = f"{path} contains images, but the preprocessing is not specified"
        remedy = (
            "set --image-size 224 and, if the model expects normalized "
            "images, --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225"
        )
        raise DiagnosticError(Diagnostic("QUANT0001", message, Span(Source(str(path))), remedy))


def _layout(value: Value, asked: Layout | None) -> tuple[Layout, int] | None:
    """Return the channel axis of an input and the number of channels; `None` if it is no image."""
    shape = value.shape
    if shape is None or len(shape) != 4:
        return None
    candidates: tuple[tuple[Layout, int], ...] = (("NCHW", 1), ("NHWC", 3))
    for layout, axis in candidates:
        channels = shape[axis]
        if asked in (None, layout) and isinstance(channels, int) and channels in _MODES:
            return layout, channels
    return None


def _size(value: Value, asked: int | tuple[int, int] | None, layout: Layout) -> tuple[int, int]:
    shape = value.shape
    dims = (shape or ())[2:4] if layout == "NCHW" else (shape or ())[1:3]
    if asked is not None:
        return (asked, asked) if isinstance(asked, int) else asked
    lengths = [dim for dim in dims if isinstance(dim, int)]
    if len(lengths) == 2:
        return lengths[0], lengths[1]
    message = f"unknown image size: {value.name} has dynamic dims"
    raise DiagnosticError(Diagnostic("QUANT0002", message, None, "set it: --image-size 224, or 480x640"))


def _per_channel(values: tuple[float, ...], channels: int, name: str) -> Array:
    if len(values) not in (1, channels):
        message = f"{name} has {len(values)} elements for {channels} channels"
        raise DiagnosticError(Diagnostic("QUANT0004", message, None, "set one for all channels, or one per channel"))
    return np.asarray(values, np.float32)


def _emitted(graph: Graph) -> str:
    return ", ".join(f"{value.name} {value.fact}" for value in graph.inputs)


def _corrupt_error(file: Path, why: str) -> DiagnosticError:
    message = f"the image {file} cannot be read: {why}"
    return DiagnosticError(
        Diagnostic("QUANT0001", message, Span(Source(str(file))), "remove the image from the folder")
    )
