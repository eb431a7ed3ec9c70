"""Options for custom operators."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from graphport.runtimes.custom_libraries import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")
_FILE = click.Path(exists=True, dir_okay=False, path_type=str)


def custom_operator_options(command: Command) -> Command:
    """Add the options `--operators` and `--ort-library`."""
    operators = click.option(
        "--operators",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_define,
        help="A Python file that defines custom operators with gp.operator; its code is run. Repeatable.",
    )
    libraries = click.option(
        "--ort-library",
        type=_FILE,
        multiple=True,
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_register,
        help="A library of custom operators for ONNX Runtime (.so, .dll, .dylib). Repeatable.",
    )
    return operators(libraries(command))


def _define(ctx: click.Context, param: click.Parameter, paths: tuple[str, ...]) -> None:
    """Run Python files, and remove their definitions when the command ends."""
    from graphport.ops.declare import MEANINGS, OWN

    known = {*OWN}

    def restore() -> None:
        for key in {*OWN} - known:
            del OWN[key], MEANINGS[key]

    if paths:
        ctx.call_on_close(restore)
    for path in paths:
        from runpy import run_path

        try:
            run_path(path)
        except Exception as error:
            message = f"{path}: {type(error).__name__}: {error}"
            raise click.BadParameter(message, ctx, param) from error


def _register(ctx: click.Context, param: click.Parameter, paths: tuple[str, ...]) -> None:
    """Set the environment variable of libraries until the command ends."""
    del param
    if not paths:
        return
    before = os.environ.get(LIBRARIES)
    os.environ[LIBRARIES] = os.pathsep.join(str(Path(path).resolve()) for path in paths)

    def restore() -> None:
        del os.environ[LIBRARIES]
        if before is not None:
            os.environ[LIBRARIES] = before

    ctx.call_on_close(restore)
