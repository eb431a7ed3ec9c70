"""Bytes to dialect graph and back: a folder a format, independent of each other; this table lists them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.names import near
from graphport.core.opening import beginning, regular
from graphport.formats.contract import Format
from graphport.formats.interrupted_writes import graph_of, refuse_incomplete
from graphport.formats.plugins import plugin_formats

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FORMATS", "HEAD", "Format", "by_name", "called", "graph_of", "recognize"]

HEAD = 4096
"""Bytes of a file that a format sees to recognize it."""

_NAMELESS = Path("model")

PACKAGES = {
    "nnef": "graphport.formats.nnef",
    "onnx": "graphport.formats.onnx",
    "openvino": "graphport.formats.openvino",
    "pnnx": "graphport.formats.pnnx",
    "ncnn": "graphport.formats.ncnn",
    "caffe": "graphport.formats.caffe",
    "pt2": "graphport.formats.pytorch.pt2",
    "torchscript": "graphport.formats.pytorch.torchscript",
    "keras": "graphport.formats.keras",
    "tflite": "graphport.formats.tflite",
    "checkpoint": "graphport.formats.checkpoint",
    "archive": "graphport.formats.archive",
}
"""The built-in formats: a row registers the record `FORMAT` of a package. The first that recognizes a file reads it."""


@cache
def _built_in(name: str) -> Format:
    """The record of a built-in format."""
    return import_module(PACKAGES[name]).FORMAT


class _Formats(Mapping[str, Format]):
    """All formats by name: the built-in ones, then those of plugins. Packages are imported when they are needed."""

    @cached_property
    def _plugins(self) -> dict[str, Format]:
        return {found.name: found for found in plugin_formats(PACKAGES)}

    def __getitem__(self, name: str) -> Format:
        return _built_in(name) if name in PACKAGES else self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        yield from PACKAGES
        yield from self._plugins

    def __len__(self) -> int:
        return len(PACKAGES) + len(self._plugins)


FORMATS: Mapping[str, Format] = _Formats()


def recognize(path: str | Path) -> Format:
    """The format of an existing file or folder, by content first, then by name.

    Raises:
        DiagnosticError: IO0001 there is nothing at `path`, IO0002 no format is recognized, IO0006 it cannot be read.
    """
    place = path if isinstance(path, Path) else Path(path)
    try:
        refuse_incomplete(place)
        mode = _mode(place)
        if mode is None:
            message = f"there is no {path}"
            raise DiagnosticError(Diagnostic("IO0001", message, Span(Source(str(path))), "check the path"))
        is_file = not S_ISDIR(mode)
        if is_file and not S_ISREG(mode):
            regular(place)  # which says what it is
        found = _by_content(place, is_file=is_file) or _by_ending(place.name)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(Source(str(path))), "check the path")) from error
    if found is not None:
        return found
    message = f"{path} is in no format that is known"
    raise DiagnosticError(Diagnostic("IO0002", message, Span(Source(str(path))), f"known: {_known()}"))


def _mode(place: Path) -> int | None:
    """What is at `place`, `None` for nothing; `Path.exists` before Python 3.14 takes a refusal for an absence."""
    try:
        return place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of names with a NUL
        return None


def called(name: str) -> Format:
    """The format of that name.

    Raises:
        DiagnosticError: IO0003 there is none.
    """
    if name not in FORMATS:
        close = near(name, FORMATS)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"known: {_known()}"
        raise DiagnosticError(Diagnostic("IO0003", f"there is no format {name!r}", None, remedy))
    return FORMATS[name]


def by_name(path: str | Path, name: str | None = None) -> Format:
    """The format to write `path` in: `name`, else what its ending says; a name without ending is an NNEF folder.

    Raises:
        DiagnosticError: IO0003 neither says one.
    """
    if name is not None:
        found = called(name)
    else:
        found = _by_ending(Path(path).name)
        if found is None and not Path(path).suffix:
            found = FORMATS["nnef"]
    if found is None:
        raise DiagnosticError(Diagnostic("IO0003", f"the name {path} says no format", None, f"known: {_known()}"))
    if not found.writes:
        message = f"{found.title}s are read, not written"
        raise DiagnosticError(Diagnostic("IO0003", message, None, f"known: {_known()}"))
    return found


def _by_content(place: Path, *, is_file: bool) -> Format | None:
    head = b""
    if is_file:
        head = beginning(place, HEAD)
        # A format looks at the name, too; nothing lies below a file, and this name has no ending.
        place = _NAMELESS if head else place / "model"
    return next((found for found in FORMATS.values() if found.hooks.recognize(place, head)), None)


def _by_ending(name: str) -> Format | None:
    lower = name.lower()
    for formats in (map(_built_in, PACKAGES), FORMATS.values()):  # plugins are searched for only if they are needed
        fitting = [(len(e), format) for format in formats for e in format.endings if lower.endswith(e)]
        if fitting:
            return max(fitting, key=lambda item: item[0])[1]
    return None


def _known() -> str:
    return ", ".join(f"{found.name} ({', '.join(found.endings)})" for found in FORMATS.values())
