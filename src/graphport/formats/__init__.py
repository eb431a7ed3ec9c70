"""Bytes to dialect graph and back: a folder a format, independent of each other; this table lists them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.names import find_similar
from graphport.core.regular_files import beginning, regular_status
from graphport.formats.contract import Format
from graphport.formats.interrupted_writes import graph_of, refuse_incomplete
from graphport.formats.plugins import plugin_formats
from graphport.formats.recognition import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.recognition.evidence import Evidence
    from graphport.formats.recognition.kinds import FileKind

__all__ = ["FORMATS", "HEAD", "Format", "Located", "by_name", "called", "graph_of", "locate", "recognize"]

HEAD = 4096
"""Bytes of a file that a format sees to recognize it."""

MAX_CONTAINERS = 3
"""Containers within each other, for example a tar archive in a gzip file."""
TEXT_ENDINGS = (".onnxtxt", ".onnxjson", ".textproto")
"""Further extensions of models in containers."""

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
    "tensorflow": "graphport.formats.tensorflow",
    "tflite": "graphport.formats.tflite",
    "genai": "graphport.formats.genai",
    "stablehlo": "graphport.formats.stablehlo",
    "checkpoint": "graphport.formats.checkpoint",
    "archive": "graphport.formats.archive",
}
"""The built-in formats: a row registers the record `FORMAT` of a package. The first that recognizes a file reads it."""


@cache
def _built_in(name: str) -> Format:
    """The record of a built-in format."""
    return import_module(PACKAGES[name]).FORMAT


class _Formats(Mapping[str, Format]):
    """All formats by name: built-in formats, then those of plugins. Packages are imported on first use."""

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


class Located(NamedTuple):
    """A model: its format, and the file or folder that the format's reader takes."""

    format: Format
    path: Path


def recognize(path: str | Path) -> Format:
    """The format of an existing file or folder; see `locate`."""
    return locate(path).format


def locate(path: str | Path) -> Located:
    """Find the model at `path`: a file or folder in a format by content, the only model in a container, or by name.

    Raises:
        DiagnosticError: IO0001 there is nothing at `path`; IO0002 the format is unknown; IO0006 it cannot be read;
            IO0017 it is a kind of file that is not read; IO0018 a container has several models; IO0019 it is damaged.
    """
    place = path if isinstance(path, Path) else Path(path)
    try:
        refuse_incomplete(place)
        mode = _mode(place)
        if mode is None:
            message = f"file or folder not found: {path}"
            raise DiagnosticError(Diagnostic("IO0001", message, Span(Source(str(path))), "check the path"))
        is_file = not S_ISDIR(mode)
        if is_file and not S_ISREG(mode):
            regular_status(place)  # the diagnostic contains the finding
        found = _locate(place, beginning(place, HEAD) if is_file else b"", is_file=is_file, depth=MAX_CONTAINERS)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(Source(str(path))), "check the path")) from error
    if found is not None:
        return found
    message = f"unrecognized model format: {path}"
    raise DiagnosticError(Diagnostic("IO0002", message, Span(Source(str(path))), f"known: {_list_formats()}"))


def _locate(place: Path, head: bytes, *, is_file: bool, depth: int) -> Located | None:
    """The model at `place`, which begins with `head`, inside of at most `depth` containers."""
    found = _by_content(place, head, is_file=is_file)
    if found is not None and (found.name != "checkpoint" or not _has_exported_model(place)):
        encoding = found.encoding(head) if head else None
        return Located(found, place if encoding is None else _decoded(found, place, encoding))
    return _locate_unrecognized(place, head, is_file=is_file, depth=depth)


def _has_exported_model(place: Path) -> bool:
    """Whether a folder has `model.onnx`, or ONNX files without safetensors."""
    if any((place / name).is_file() for name in EXPORTED):
        return True
    return any(any(place.glob(each)) for each in ("*.onnx", "onnx/*.onnx")) and not any(place.glob("*.safetensors"))


def _locate_unrecognized(place: Path, head: bytes, *, is_file: bool, depth: int) -> Located | None:
    """The model in a container, or in a file whose content has no mark.

    Raises:
        DiagnosticError: IO0017 it is a kind of file that is not read.
    """
    # What follows takes 10 ms to import.
    from graphport.formats.recognition.containers import container_kind, packing
    from graphport.formats.recognition.evidence import Evidence
    from graphport.formats.recognition.kinds import find_kind

    evidence = Evidence(place, head)
    kind = find_kind(evidence)
    if kind is not None:
        raise _unsupported(evidence, kind)
    inside = _contained(evidence, depth) if depth else None
    if inside is not None:
        return inside
    found = _by_ending(place.name) if is_file else None
    container = None if found is not None and packing(evidence) in found.packed_in else container_kind(evidence, HEAD)
    if container is not None:
        raise _unsupported(evidence, container)
    return None if found is None else Located(found, place)


def _contained(evidence: Evidence, depth: int) -> Located | None:
    from graphport.formats.recognition.containers import contained_model

    extensions = {ending for format in FORMATS.values() for ending in format.endings if "tar" not in format.packed_in}
    model = contained_model(evidence, HEAD, extensions | {".nnef", *TEXT_ENDINGS}, _is_model)
    if model is None:
        return None
    return _locate(model, beginning(model, HEAD), is_file=True, depth=depth - 1)


def _is_model(head: bytes) -> bool:
    return bool(head) and _by_content(_NAMELESS, head, is_file=True) is not None


def _decoded(format: Format, path: Path, encoding: str) -> Path:
    """A file in another encoding, rewritten as its reader takes it."""
    from graphport.formats.recognition.containers import workspace_file

    name = path.stem + format.endings[0]
    return workspace_file(path, name, lambda folder: (folder / name).write_bytes(format.decode(path, encoding)))


def _unsupported(evidence: Evidence, kind: FileKind) -> DiagnosticError:
    message = f"unsupported file {evidence.path.name}: {kind.name}"
    return DiagnosticError(Diagnostic("IO0017", message, Span(Source(str(evidence.path))), kind.help(evidence)))


def _mode(place: Path) -> int | None:
    """Return the mode of the file at `place`, `None` if it does not exist.

    Denied access is an error, which `Path.exists` before Python 3.14 does not report.
    """
    try:
        return place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of names with a NUL
        return None


def called(name: str) -> Format:
    """Return the format named `name`.

    Raises:
        DiagnosticError: IO0003 there is none.
    """
    if name not in FORMATS:
        close = find_similar(name, FORMATS)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"known: {_list_formats()}"
        raise DiagnosticError(Diagnostic("IO0003", f"unknown format {name!r}", None, remedy))
    return FORMATS[name]


def by_name(path: str | Path, name: str | None = None) -> Format:
    """Return the output format of `path`: `name`, else by the extension; a name without extension is an NNEF folder.

    Raises:
        DiagnosticError: IO0003 the format is unknown.
    """
    if name is not None:
        found = called(name)
    else:
        found = _by_ending(Path(path).name)
        if found is None and not Path(path).suffix:
            found = FORMATS["nnef"]
    if found is None:
        raise DiagnosticError(
            Diagnostic(
                "IO0003",
                f"cannot infer the format from the file name {path}",
                None,
                f"known: {_list_formats(are_written=True)}",
            )
        )
    if not found.writes:
        message = f"writing {found.title}s is not supported"
        raise DiagnosticError(Diagnostic("IO0003", message, None, f"known: {_list_formats(are_written=True)}"))
    return found


def _by_content(place: Path, head: bytes, *, is_file: bool) -> Format | None:
    if is_file:
        # A format checks the name, too: no file is inside a file, and this name has no extension.
        place = _NAMELESS if head else place / "model"
    for format in FORMATS.values():
        if (head and format.encoding(head)) or format.hooks.recognize(place, head):
            return format
    return None


def _by_ending(name: str) -> Format | None:
    lower = name.lower()
    for formats in (map(_built_in, PACKAGES), FORMATS.values()):  # plugins are searched for only if they are needed
        fitting = [(len(e), format) for format in formats for e in format.endings if lower.endswith(e)]
        if fitting:
            return max(fitting, key=lambda item: item[0])[1]
    return None


def _list_formats(*, are_written: bool = False) -> str:
    listed = [found for found in FORMATS.values() if found.writes or not are_written]
    return ", ".join(f"{each.name} ({', '.join(each.endings)})" if each.endings else each.name for each in listed)
