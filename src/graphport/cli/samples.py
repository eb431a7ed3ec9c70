"""Options for calibration samples: files of arrays, or images and their preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.streams import MODEL
from graphport.cli.usage import Choice, grouped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_IMAGES = "Samples that are images"


def _parse_numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    del ctx
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        message = f"expected comma-separated floats, for example 0.485,0.456,0.406; found {value!r}"
        raise click.BadParameter(message, param=param) from None


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | tuple[int, int] | None:
    del ctx
    if value is None:
        return None
    parts = value.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        message = f"{value!r} is neither 224 nor 480x640 (height, width)"
        raise click.BadParameter(message, param=param)
    return int(parts[0]) if len(parts) == 1 else (int(parts[0]), int(parts[1]))


def samples_options(text: str) -> Callable[[Any], Any]:
    """Add `--calibration` with the help `text`, and the options for image preprocessing."""
    options = (
        click.option("--calibration", type=MODEL, help=text),
        grouped(
            _IMAGES, "--image-size", callback=_size, metavar="SIZE", help="Resize images to 224, or 480x640 (HxW)."
        ),
        grouped(
            _IMAGES,
            "--mean",
            callback=_parse_numbers,
            metavar="M,…",
            help="Per-channel mean to subtract from pixel values.",
        ),
        grouped(
            _IMAGES,
            "--std",
            callback=_parse_numbers,
            metavar="S,…",
            help="Per-channel standard deviation to divide by.",
        ),
        grouped(
            _IMAGES, "--white", type=Choice(["1", "255"]), help="Maximum pixel value before mean and std (default: 1)."
        ),
        grouped(
            _IMAGES,
            "--layout",
            type=Choice(["NCHW", "NHWC"]),
            help="Layout of images (default: that of the input).",
        ),
    )

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def samples_of(calibration: Path | None, options: dict[str, Any]) -> Any:
    """Return the samples, with the preprocessing options removed from `options`.

    Raises:
        DiagnosticError: QUANT0001 the path does not exist; reported before any work.
        click.UsageError: preprocessing options without samples.
    """
    from graphport.quantization.images import Pictures
    from graphport.quantization.samples import refuse_missing

    names = {"image_size": "size", "mean": "mean", "std": "std", "white": "white", "layout": "layout"}
    given = {new: options.pop(old) for old, new in names.items()}
    stated: dict[str, Any] = {name: x for name, x in given.items() if x is not None}
    if calibration is None:
        if stated:
            message = "--image-size, --mean, --std, --white and --layout apply to images in --calibration FOLDER only"
            raise click.UsageError(message)
        return None
    refuse_missing(calibration)
    if not stated:
        return calibration
    if "white" in stated:
        stated["white"] = float(stated["white"])
    return Pictures(calibration, **stated)
