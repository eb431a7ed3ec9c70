"""Container of a model: a folder, a tar archive, a compressed one, or a text alone.

Files are untrusted: nothing outside a folder is opened, links and devices in archives are refused, and sizes in
archives are checked against the file size.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.atomic_write import move, replacing, temporary_path, together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.progress import stage
from graphport.core.regular_files import beginning, belonging, open_regular
from graphport.core.storage import CHUNK, MappedFile
from graphport.core.write_errors import write_remedy
from graphport.formats.nnef.container.gzip_stream import GzipStream
from graphport.formats.nnef.container.recognition import GRAPH, GZIP, GZIPPED, TAR, TEXT
from graphport.formats.nnef.container.tar import BLOCK, Archive, fault_of_name, is_tar, tar_end, tar_header
from graphport.formats.nnef.container.tensors import Payload, Region
from graphport.formats.nnef.container.unpacked_file import UnpackedFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

QUANTIZATION = "graph.quant"
QUANTIZATION_SUFFIX = ".quant"
"""Suffix of the quantization file of a text alone."""
DATA = ".dat"

_SHORT = 1 << 16
"""Bytes of a text that is looked into and read at once."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on file content, with their defaults; a diagnostic names the exceeded limit."""

    text: int = 256 << 20
    """Bytes of a graph's text or of its quantization."""

    members: int = 100_000
    """Files in an archive."""

    unpacked: int = 64 << 30
    """Bytes of a compressed archive when it is unpacked."""

    ratio: int = 100
    """Unpacked bytes for each compressed one."""

    ratio_above: int = 256 << 20
    """Unpacked size in bytes that is accepted at any ratio."""


FILES = FileLimits()


class Container(ABC):
    """The files of one model; `name` is the user's path, `findings` are warnings."""

    def __init__(self, path: Path, limits: FileLimits) -> None:
        self.path = path
        self.name = str(path)
        self.limits = limits
        self.findings: list[Diagnostic] = []
        self.needs_data = True
        self.has_data = True
        """Whether there may be tensor files."""

    @abstractmethod
    def find(self, name: str) -> Region | None:
        """Return the file `name` of the model, or `None`.

        Raises:
            DiagnosticError: it is outside the model's folder, or not a regular file.
        """

    def graph(self) -> Source:
        """The graph's text.

        Raises:
            DiagnosticError: there is none, or it is too long.
        """
        region = self.find(GRAPH)
        if region is None:
            message = f"missing {GRAPH}"
            raise _fault("NNEF0732", message, self.name, f"pass a folder or archive with {GRAPH} at its top level")
        return self._text(region)

    def quantization(self) -> Source | None:
        """The text of the quantization file, if there is one."""
        region = self.find(QUANTIZATION)
        return None if region is None else self._text(region)

    def tensor(self, label: str) -> Region | None:
        """The tensor file of the variables labelled `label`, if there is one.

        Raises:
            DiagnosticError: the label leaves the model's folder (NNEF0740, NNEF0741).
        """
        fault = fault_of_name(label)
        if fault is not None:
            message = f"invalid label: '{label}' {fault}"
            raise _fault(
                "NNEF0740", message, self.name, "use a path inside the model's folder, for example 'conv1/filter'"
            )
        return self.find(label + DATA)

    def _text(self, region: Region) -> Source:
        self._check_length(region.size, region.name)
        return self._decoded(region.read(0, region.size), region.name)

    def _check_length(self, size: int, name: str) -> None:
        if size > self.limits.text:
            message = f"the document has {size} bytes, the limit is {self.limits.text}"
            raise _fault("NNEF0733", message, name, "set GRAPHPORT_LIMITS=nnef.text=N to raise the limit to N")

    def _decoded(self, content: bytes, name: str) -> Source:
        try:
            return Source(name, content.decode("utf-8"))
        except UnicodeDecodeError as error:
            span = Span(Source(name), place=f"byte {error.start}")
            message = f"byte 0x{content[error.start]:02x} is not valid UTF-8; the reader replaces invalid bytes"
            remedy = "save the file as ASCII or UTF-8"
            self.findings.append(Diagnostic("NNEF0734", message, span, remedy, Severity.WARNING))
            return Source(name, content.decode("utf-8", "replace"))


class Folder(Container):
    """A model in a folder."""

    def find(self, name: str) -> Region | None:
        shown = f"{self.name}/{name}"
        try:
            return _region_of_file(MappedFile(self._located(name.split("/"))), shown)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _fault("NNEF0731", f"the file cannot be read: {error.strerror or error}", shown) from error

    def _located(self, parts: list[str]) -> str:
        """Resolve the path of a file; every link must stay in the folder."""
        place = str(self.path)
        status = None
        for part in parts:
            place = os.path.join(place, part)  # noqa: PTH118  a path object costs more than the rest
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                place = self._followed(place)
                status = os.stat(place)  # noqa: PTH116
        if status is None or not stat.S_ISREG(status.st_mode):
            raise _fault("NNEF0742", "not a regular file", place, "replace it by a regular file")
        return place

    def _followed(self, place: str) -> str:
        target = os.path.realpath(place)
        if Path(os.path.realpath(self.path)) in Path(target).parents:
            return target
        message = f"symbolic link to {target}, outside of the model's folder"
        raise _fault("NNEF0741", message, place, "replace the link by a copy of the file")


class Tar(Container):
    """A model in a tar archive; its members are mapped where they lie."""

    def __init__(self, path: Path, file: MappedFile, limits: FileLimits) -> None:
        super().__init__(path, limits)
        archive = Archive(file, Source(self.name), limits.members)
        self._file = file
        self._members = archive.members()
        self._inside = self._folder()

    def find(self, name: str) -> Region | None:
        member = self._members.get(self._inside + name)
        if member is None:
            return None
        return Region(self._file, member.start, member.size, f"{self.name}/{self._inside}{name}")

    def _folder(self) -> str:
        """Return the prefix of the model's file names: the folder that the archive was made from."""
        if GRAPH in self._members:
            return ""
        tops = [name for name in self._members if name.count("/") == 1 and name.endswith(f"/{GRAPH}")]
        if len(tops) != 1:
            return ""
        folder = tops[0][: -len(GRAPH)]
        message = f"{GRAPH} is in the folder {folder} of the archive, not at the top level"
        span = Span(Source(self.name))
        remedy = "create the archive inside of the folder: other readers expect {GRAPH} at the top level"
        self.findings.append(Diagnostic("NNEF0739", message, span, remedy, Severity.WARNING))
        return folder


class Text(Container):
    """A graph's text without data, or with its sibling files if it is named `graph.nnef`.

    The quantization of `model.nnef` is `model.quant`.
    """

    def __init__(self, path: Path, limits: FileLimits, content: bytes | None = None) -> None:
        """`content` is that of a file that has been read to its end."""
        super().__init__(path, limits)
        self._content = content
        self.needs_data = False
        self._folder = Folder(path.parent, limits) if path.name == GRAPH else None
        self.has_data = self._folder is not None

    def graph(self) -> Source:
        if self._content is not None:
            self._check_length(len(self._content), self.name)
            return self._decoded(self._content, self.name)
        with open_regular(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            self._check_length(size, self.name)
            content = file.read(size)
        return self._decoded(content, self.name)

    def find(self, name: str) -> Region | None:
        if name == GRAPH:
            return _region_of_file(MappedFile(self.path), self.name)
        if self._folder is not None:
            return self._folder.find(name)
        if name != QUANTIZATION:
            return None
        beside = belonging(self.path.with_suffix(QUANTIZATION_SUFFIX), self.path)
        if beside == self.path or not beside.is_file():
            return None
        return _region_of_file(MappedFile(beside), str(beside))


def open_container(path: Path | str, limits: FileLimits = FILES) -> Container:
    """Open the model at `path`, detecting its kind; archive members are listed, nothing else is read.

    Raises:
        DiagnosticError: the path does not exist, cannot be read, or is a damaged or unsafe archive (NNEF0730 to
            NNEF0738).
    """
    path = path if isinstance(path, Path) else Path(path)
    try:
        status = _status(path)
        if stat.S_ISDIR(status.st_mode):
            return Folder(path, limits)
        head = beginning(path, _SHORT)
        if head.startswith(GZIP):
            return Tar(path, _unpacked(path, limits), limits)
        if is_tar(head):
            return Tar(path, MappedFile(path), limits)
        is_whole = len(head) == status.st_size < _SHORT
        return Text(path, limits, head if is_whole else None)
    except OSError as error:
        raise _fault("NNEF0731", f"the file cannot be read: {error.strerror or error}", str(path)) from error


def _status(path: Path) -> os.stat_result:
    """Return the status of a file or folder with a single system call."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        if path.exists():
            raise
        raise _fault("NNEF0730", "file or folder not found", str(path)) from None
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise _fault("NNEF0730", "not a regular file", str(path))
    return status


def _region_of_file(file: MappedFile, name: str) -> Region:
    return Region(file, 0, file.size, name)


def _fault(code: str, message: str, name: str, help: str | None = None) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, Span(Source(name)), help))


def _unpacked(path: Path, limits: FileLimits) -> UnpackedFile:
    """Unpack the content to an anonymous temporary file."""
    import gzip

    most = min(limits.unpacked, max(limits.ratio_above, path.stat().st_size * limits.ratio))
    size = 0
    with tempfile.TemporaryFile() as target, open_regular(path) as packed, gzip.open(packed) as source:
        try:
            while piece := source.read(CHUNK):
                size += len(piece)
                if size > most:
                    message = f"the archive unpacks to more than {most} bytes"
                    remedy = (
                        "unpack it and pass the folder, or raise the limit: "
                        "GRAPHPORT_LIMITS=nnef.unpacked=N,nnef.ratio=N"
                    )
                    raise _fault("NNEF0736", message, str(path), remedy)
                target.write(piece)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _fault(
                "NNEF0735",
                f"the archive cannot be unpacked: {error}",
                str(path),
                "create the archive again: it is corrupt",
            ) from error
        target.flush()
        return UnpackedFile(path, target.fileno(), size)


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_container(path: Path | str, files: Mapping[str, Payload]) -> None:
    """Write the files of a model to `path`.

    Writes an archive for `.tar`, `.tgz` or `.tar.gz`, a text (with its quantization file) for `.nnef` without data,
    else a folder; `graph.nnef` means its folder. Output is deterministic. Old content is replaced after the new one is
    complete; a folder is replaced only if it contains nothing but a model.

    Raises:
        DiagnosticError: the path cannot be written (NNEF0743), a folder has other files (NNEF0744), or an existing file
            would be read as the quantization of a text (NNEF0745).
    """
    path = Path(path)
    name = path.name.lower()
    order = sorted(files, key=lambda file: (file != GRAPH, file != QUANTIZATION, file))
    ordered = {file: files[file] for file in order}
    try:
        if name.endswith(TAR):
            with replacing(path) as target:
                _write_tar(target, ordered)
        elif name.endswith(GZIPPED):
            _write_gzipped(path, ordered)
        elif name.endswith(TEXT) and files.keys() <= {GRAPH, QUANTIZATION} and not path.is_dir():
            _write_text(path, ordered)
        else:
            _write_folder(model_folder(path), ordered)
    except OSError as error:
        message = f"the file cannot be written: {error.strerror or error}"
        raise _fault("NNEF0743", message, str(path), write_remedy(error)) from error


def model_folder(path: Path) -> Path:
    """Return the folder of a `graph.nnef`, else the path itself."""
    return path.parent if path.name == GRAPH else path


def refuse_path(path: Path, written: Path) -> None:
    """Refuse paths that `write_container` would refuse, for a model written elsewhere.

    Raises:
        DiagnosticError: NNEF0744 or NNEF0745, see `write_container`.
    """
    if written.is_dir():
        _refuse_foreign(Path(os.path.realpath(path)))
    elif written.name.lower().endswith(TEXT):
        _refuse_quantization(path, is_written=written.with_suffix(QUANTIZATION_SUFFIX).exists())


def _refuse_foreign(path: Path) -> None:
    foreign = _foreign(path)
    if foreign is not None:
        message = f"the folder contains files that do not belong to a model: {foreign}"
        raise _fault("NNEF0744", message, str(path), "choose a new folder, or an archive with the extension .nnef.tgz")


def _refuse_quantization(path: Path, *, is_written: bool) -> None:
    existing = path.with_suffix(QUANTIZATION_SUFFIX)
    if not is_written and existing.exists():
        message = f"the existing {existing.name} would be read as the quantization file of the new model"
        raise _fault("NNEF0745", message, str(path), "remove it, or choose another file name")


def _write_text(path: Path, files: Mapping[str, Payload]) -> None:
    beside = path.with_suffix(QUANTIZATION_SUFFIX)
    _refuse_quantization(path, is_written=QUANTIZATION in files)
    with together(path) as opened_files:
        for place, name in ((beside, QUANTIZATION), (path, GRAPH)):
            if name in files:
                _write_all(opened_files.open_file(place), files[name])


def _write_all(target: BinaryIO | GzipStream, payload: Payload) -> None:
    target.writelines(payload.chunks())


def _write_tar(target: BinaryIO | GzipStream, files: Mapping[str, Payload]) -> None:
    for name, payload in files.items():
        target.write(tar_header(name, payload.size))
        _write_all(target, payload)
        target.write(bytes(-payload.size % BLOCK))
    target.write(tar_end())


def _write_gzipped(path: Path, files: Mapping[str, Payload]) -> None:
    with replacing(path) as target, GzipStream(target) as packed:
        size = sum(payload.size for payload in files.values())
        # The progress is measured by input bytes, not by compressed output.
        with stage(f"packing {path.name}", size, "bytes", packed.tell):
            _write_tar(packed, files)


def _write_folder(path: Path, files: Mapping[str, Payload]) -> None:
    path = Path(os.path.realpath(path))
    _refuse_foreign(path)
    beside = temporary_path(path)
    try:
        beside.mkdir()
        for name, payload in files.items():
            place = beside / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as target:
                _write_all(target, payload)
        move([(beside, path)])
    finally:
        shutil.rmtree(beside, ignore_errors=True)


_OWN = re.compile(r"graph\.nnef|graph\.quant|.+\.dat(?:\..+)?")


def _foreign(path: Path) -> str | None:
    """Return the path of a file in the folder `path` that does not belong to a model; `None` if there is none."""
    if not path.exists():
        return None
    if not path.is_dir():
        raise FileExistsError(17, "a file of this name exists, but the model needs a folder", str(path))
    for place, _, names in os.walk(path):
        for name in sorted(names):
            if not _OWN.fullmatch(name):
                return str((Path(place) / name).relative_to(path))
    return None
