"""Quiet mode: a command prints only errors and the requested output."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Generator

_QUIET, _STDOUT = "graphport.quiet", "graphport.stdout"


def quiet() -> click.Option:
    """Add the option `-q`."""
    return click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_be_quiet,
        help="Print only errors; the exit code is the result.",
    )


def _be_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_QUIET] = True


def is_quiet() -> bool:
    """Whether only errors are printed."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


@contextmanager
def silenced(ctx: click.Context) -> Generator[None]:
    """Discard standard output during the block, except for users of `stdout`."""
    ctx.meta[_STDOUT] = sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123  it is no path
        yield


def stdout() -> TextIO:
    """Return the real standard output, for requested output in quiet mode."""
    context = click.get_current_context(silent=True)
    return sys.stdout if context is None else context.meta.get(_STDOUT, sys.stdout)
