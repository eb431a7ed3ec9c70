"""Options that say what samples are: files of arrays, or pictures and what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.streams import MODEL
from graphport.cli.usage import Choice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    del ctx
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        message = f"{value!r} is no list of numbers, such as 0.485,0.456,0.406"
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
    """`--calibration` with `text` for its help, and what says how pictures become numbers."""
    options = (
        click.option("--calibration", type=MODEL, help=text),
        click.option("--image-size", callback=_size, metavar="SIZE", help="Scale pictures to 224, or 480x640 (HxW)."),
        click.option("--mean", callback=_numbers, metavar="M,…", help="Is subtracted from pixels, of each channel."),
        click.option("--std", callback=_numbers, metavar="S,…", help="Pixels are divided by it after that."),
        click.option("--white", type=Choice(["1", "255"]), help="The lightest pixel before that (default: 1)."),
        click.option(
            "--layout",
            type=Choice(["NCHW", "NHWC"]),
            help="Where pictures have channels (default: as the input does).",
        ),
    )

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def samples_of(calibration: Path | None, options: dict[str, Any]) -> Any:
    """What was given as samples, with what was said of pictures taken out of `options`.

    Raises:
        DiagnosticError: QUANT0001 there is nothing at that path: told before any work.
        click.UsageError: pictures are described, and no samples given.
    """
    from graphport.quantization.pictures import Pictures
    from graphport.quantization.samples import refuse_missing

    names = {"image_size": "size", "mean": "mean", "std": "std", "white": "white", "layout": "layout"}
    given = {new: options.pop(old) for old, new in names.items()}
    stated: dict[str, Any] = {name: x for name, x in given.items() if x is not None}
    if calibration is None:
        if stated:
            message = "--image-size, --mean, --std, --white and --layout are for pictures in --calibration FOLDER"
            raise click.UsageError(message)
        return None
    refuse_missing(calibration)
    if not stated:
        return calibration
    if "white" in stated:
        stated["white"] = float(stated["white"])
    return Pictures(calibration, **stated)
