"""The command `graphport`: its verbs are imported when they are called, and end here whatever happens."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import click

from graphport import __version__
from graphport.cli.quiet import quiet
from graphport.cli.render import TerminalStream
from graphport.cli.usage import Verbs
from graphport.core import faults

VERBS = (
    "check",
    "shapes",
    "inspect",
    "convert",
    "simplify",
    "prepare",
    "quantize",
    "cast",
    "cut",
    "edit",
    "merge",
    "run",
    "compare",
    "verify",
    "report",
    "bench",
    "latency",
    "expr",
    "fmt",
    "formats",
    "ops",
    "explain",
    "schema",
    "doctor",
    "lsp",
    "demo",
)
"""In the order of the help; each is a module beside this one that holds a command `verb`."""

_BRIEF = frozenset(["check", "shapes", "inspect", "fmt", "formats", "ops", "explain", "schema", "doctor"])
_LITTLE_GARBAGE = 50_000
"""Objects between two collections in verbs without tensors; importing alone makes hundreds of collections else."""


class _Verbs(Verbs):
    """Finds a verb by importing its module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        if cmd_name in _BRIEF:
            gc.set_threshold(_LITTLE_GARBAGE)
        return import_module(f"graphport.cli.{cmd_name}").verb


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="graphport")
@click.option("--debug", is_flag=True, help="Show a mistake of graphport's own with its traceback.")
def cli(debug: bool) -> None:
    """Read, check, run, compare and convert trained neural networks.

    A model is named by its path: net.onnx, a folder or .tgz with graph.nnef, a bare .nnef text; - is standard input.
    "graphport VERB --help" shows examples.
    """
    if debug:
        faults.debug()


cli.params.append(quiet())


def main() -> None:
    """Run the command line and exit: see below for the codes.

    0 done, 1 the input is at fault or the answer is no, 2 wrong usage, 3 graphport itself is at fault, 130 Ctrl-C.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  it stays until the end
    _protect_streams()
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # What is written beside its place is removed on the way out.
            signal.signal(getattr(signal, name), _ended)
    try:
        # A broken pipe ends with 1 and silently: click sees to it.
        # Without "standalone", click hands the exit code over instead of exiting.
        sys.exit(cli.main(standalone_mode=False))
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    finally:
        # The interpreter looks for garbage before it ends, among half a million objects: a fifth of brief verbs' time.
        gc.freeze()


def _protect_streams() -> None:
    """Let standard output and error escape characters that the terminal interprets or its encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, TextIOWrapper):
            continue
        # In JSON this is the right escape, too.
        stream.reconfigure(errors="backslashreplace")
        if stream.isatty():
            buffer = cast("BinaryIO", cast("Any", stream).buffer)
            made = TerminalStream(buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, made)


def _ended(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
