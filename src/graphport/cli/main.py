"""The command `graphport`: imports subcommands on demand and handles their errors."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

import click

from graphport import __version__
from graphport.cli.quiet import quiet
from graphport.cli.render import TerminalStream
from graphport.cli.usage import Verbs
from graphport.core import faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GROUPS: dict[str, tuple[str, ...]] = {
    "Look at a model": ("check", "inspect", "shapes", "report", "run"),
    "Change a model": ("simplify", "prepare", "edit", "cut", "merge", "fmt"),
    "Convert": ("convert", "formats", "ops"),
    "Quantize": ("quantize", "dequantize", "cast", "latency"),
    "Compare": ("compare", "verify", "bench"),
    "Editor and help": ("lsp", "explain", "schema", "doctor", "demo", "expr"),
}
"""Headings of the help, and the subcommands under each."""
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
"""The subcommands in the order of the help; each is a module of this package with a command `verb`."""

_BRIEF = frozenset(["check", "shapes", "inspect", "fmt", "formats", "ops", "explain", "schema", "doctor"])
_LITTLE_GARBAGE = 50_000
"""Garbage collection threshold for commands without tensors; imports would trigger hundreds of collections.
"""


class _Verbs(Verbs):
    """Imports the module of a subcommand when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def list_groups(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        del ctx
        return GROUPS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        if cmd_name in _BRIEF:
            gc.set_threshold(_LITTLE_GARBAGE)
        return import_module(f"graphport.cli.{cmd_name}").verb


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="graphport")
@click.option("--debug", is_flag=True, help="Print the traceback of an internal error.")
def cli(debug: bool) -> None:
    """Read, check, run, compare and convert trained neural networks.

    A model is named by its path: net.onnx, a folder or .tgz with graph.nnef, a single .nnef file; - is standard input.
    "graphport VERB --help" shows examples.
    """
    if debug:
        faults.debug()


cli.params.append(quiet())


def main() -> None:
    """Run the command line and exit.

    Exit codes: 0 success, 1 invalid input or a negative result, 2 wrong usage, 3 a fault of graphport, 130 Ctrl-C.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open until exit
    _protect_streams()
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # Exit through cleanup handlers, so that temporary files are removed.
            signal.signal(getattr(signal, name), _ended)
    try:
        # click handles a broken pipe silently with exit code 1. Without "standalone" it returns the exit code instead
        # of exiting.
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
        # Skip the final garbage collection, which takes a fifth of the time of short commands.
        gc.freeze()


def _protect_streams() -> None:
    """Escape characters that the terminal would interpret, or that its encoding lacks, on standard output and error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, TextIOWrapper):
            continue
        # This escape is valid in JSON too.
        stream.reconfigure(errors="backslashreplace")
        if stream.isatty():
            buffer = cast("BinaryIO", cast("Any", stream).buffer)
            made = TerminalStream(buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, made)


def _ended(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
