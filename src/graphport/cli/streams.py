"""`-` as a model path: standard input is stored in a temporary file; a result is copied to standard output."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from graphport.cli.quiet import is_quiet, stdout
from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Generator

DASH = Path("-")
_GIVEN = "graphport.stdin"
_NAMES = "graphport.names"
_FROM = "graphport.from"


def _from(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    from graphport.core.names import did_you_mean
    from graphport.formats import FORMATS

    if value is not None and value not in FORMATS:
        message = f"unknown format {value!r}{did_you_mean(value, FORMATS, 'formats')}"
        raise click.BadParameter(message, ctx, param)
    ctx.meta[_FROM] = value


from_option = click.option(
    "--from",
    metavar="FORMAT",
    is_eager=True,
    expose_value=False,
    callback=_from,
    help="Format of standard input (-), if its content is ambiguous; files are recognized.",
)


class ModelPath(click.Path):
    """A path; `-` is standard input, stored in a temporary file until the command ends."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path for `value`."""
        if value == "-" and ctx is not None:
            if ctx.meta.get(_GIVEN):
                self.fail("standard input can be read only once", param, ctx)
            ctx.meta[_GIVEN] = True
            return _store_standard_input(ctx)
        if ctx is not None and ctx.meta.get(_FROM) and param is not None and param.param_type_name == "argument":
            self.fail("--from is for standard input (-): files are recognized by their content", param, ctx)
        return super().convert(value, param, ctx)


def expand_patterns(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> list[Path]:
    """Replace each pattern, for example `models/*.onnx`, by the matching paths, sorted and without repetitions."""
    del ctx, param
    expanded: dict[Path, None] = {}
    for path in paths:
        text = str(path)
        is_pattern = has_magic(text) and not path.exists()
        matches = sorted(map(Path, glob(text, recursive=True))) if is_pattern else []  # noqa: PTH207  also absolute
        expanded |= dict.fromkeys(matches or [path])
    return list(expanded)


MODEL = ModelPath()
"""A model or arrays to read."""
FILE = click.Path(path_type=Path)
"""A file to write, or to read more than once."""


def _store_standard_input(ctx: click.Context) -> Path:
    from graphport.formats import FORMATS

    wanted = ctx.meta.get(_FROM)
    folder = _folder(ctx)
    path = folder / f"stdin{next(iter(FORMATS[wanted].endings), '') if wanted else ''}"
    with path.open("wb") as file:
        stream = cast("BinaryIO", sys.stdin.buffer)
        shutil.copyfileobj(stream, file)
    _name(ctx, path, "<stdin>")
    return path


def _folder(ctx: click.Context) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="graphport-"))
    ctx.find_root().call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


def _name(ctx: click.Context, path: Path, name: str) -> None:
    ctx.meta.setdefault(_NAMES, {})[str(path)] = name


def named(text: str) -> str:
    """Replace the paths of temporary files in `text` by the names of standard input and output."""
    context = click.get_current_context(silent=True)
    names: dict[str, str] = {} if context is None else context.meta.get(_NAMES, {})
    for path, name in names.items():
        text = text.replace(path, name)
    return text


def is_stdin(path: Path) -> bool:
    """Whether `path` is the temporary file of standard input."""
    return named(str(path)) != str(path)


@contextmanager
def target(dst: Path, format: str | None, *, is_json: bool) -> Generator[Path]:
    """Return the file to write for `dst`; for `-` it is copied to standard output, and messages go to standard error.

    Raises:
        UsageError: the format has several files or is not specified, or JSON is also requested.
    """
    if dst != DASH:
        yield dst
        return
    from graphport import formats

    ctx = click.get_current_context()
    if is_json:
        message = "--json and a model (-) cannot both be written to standard output"
        raise click.UsageError(message)
    if format is None:
        message = "--to FORMAT is required for a model on standard output"
        raise click.UsageError(message)
    kind = formats.by_name(dst, format)
    if kind.streamed is None:
        message = f"{kind.title} requires several files; pass a path"
        raise click.UsageError(message)
    path = _folder(ctx) / f"stdout{kind.streamed}"
    _name(ctx, path, "<stdout>")
    out, text = sys.stdout, io.StringIO()
    if not is_quiet():
        sys.stdout = text
    try:
        yield path
    finally:
        sys.stdout = out
        if path.is_file():
            send(path.read_bytes())  # before the text that reports it
        click.echo(text.getvalue(), nl=False, err=True)


def send(data: bytes) -> None:
    """Write bytes to standard output.

    Raises:
        DiagnosticError: IO0014 the reader has closed it.
    """
    out = stdout()
    out.flush()
    binary = cast("Any", out).buffer
    left = memoryview(data)
    try:
        while left:  # without a buffer (PYTHONUNBUFFERED) a pipe accepts only a part at a time
            left = left[binary.write(left) :]
        binary.flush()
    except BrokenPipeError as error:
        # Discard the buffer, whose remainder would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        message = f"standard output was closed before all {len(data)} bytes of the model were written"
        remedy = "read all of it, or write to a file"
        raise DiagnosticError(Diagnostic("IO0014", message, None, remedy)) from error
