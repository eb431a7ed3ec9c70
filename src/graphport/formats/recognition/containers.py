"""Containers: find the only model in a folder, archive or compressed file, and unpack it."""

from __future__ import annotations

import atexit
import bz2
import gzip
import lzma
import shutil
import tarfile
import tempfile
import zlib
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import open_regular
from graphport.core.zip_directory import ZIP_FAULTS
from graphport.formats.recognition import EXPORTED
from graphport.formats.recognition.evidence import MAX_MEMBERS, Evidence, open_zip
from graphport.formats.recognition.kinds import FileKind, find_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence

MAX_UNPACKED_BYTES = 1 << 33
"""Bytes that the model in one archive or compressed file takes when it is unpacked."""
MAX_RATIO = 200
"""Maximum ratio of unpacked to packed bytes."""
MAX_BYTES_AT_ANY_RATIO = 1 << 26
"""Unpacked bytes that are accepted at any ratio."""
MAX_CANDIDATES = 256
"""Members whose first bytes are read."""
MAX_LISTED = 8
"""Models that a message lists."""

_COMMANDS = {"zip": "unzip", "tar": "tar xf", "gzip": "gunzip", "bzip2": "bunzip2", "xz": "unxz"}
_FETCH_AGAIN = "download or copy {file} again"
_COMPRESSIONS = (
    (b"\x1f\x8b", "gzip", (".gz", ".gzip"), gzip.open),
    (b"BZh", "bzip2", (".bz2",), bz2.open),
    (b"\xfd7zXZ\0", "xz", (".xz",), lzma.open),
)
_FAULTS = (OSError, zlib.error, lzma.LZMAError, tarfile.TarError, *ZIP_FAULTS)
_CHUNK = 1 << 20
_MAX_FOLDERS = 100
"""Folders within each other that unpacking creates."""


def contained_model(
    evidence: Evidence, head_bytes: int, extensions: Collection[str], recognize: Callable[[bytes], bool]
) -> Path | None:
    """Find the only model in a folder, archive or compressed file. Return its path, or `None`.

    Args:
        evidence: the folder or file.
        head_bytes: bytes that `recognize` takes.
        extensions: of files that may be models.
        recognize: whether a file with this head is a model.

    Raises:
        DiagnosticError: IO0018 the container has several models; IO0019 it is damaged or too large.
    """
    if evidence.is_folder:
        name = _select_model(evidence, _candidates(evidence, extensions, head_bytes, recognize, _folder_head))
        return None if name is None else evidence.path / name
    packed = packing(evidence)
    if packed is None:
        return None
    if packed not in ("zip", "tar"):
        return _decompressed(evidence, head_bytes, recognize)
    name = _select_model(evidence, _candidates(evidence, extensions, head_bytes, recognize, _member_head))
    return None if name is None else _unpacked(evidence, name)


def packing(evidence: Evidence) -> str | None:
    """How a file is packed: `zip`, `tar`, `gzip`, `bzip2`, `xz`, or not at all."""
    if evidence.is_zip or evidence.is_tar:
        return "zip" if evidence.is_zip else "tar"
    return next((name for mark, name, *_ in _COMPRESSIONS if evidence.head.startswith(mark)), None)


def container_kind(evidence: Evidence, head_bytes: int) -> FileKind | None:
    """The kind of an archive or compressed file without a model that is read."""
    packed = packing(evidence)
    if packed is None:
        return None
    help = f"unpack it: {_COMMANDS[packed]} {{file}}"
    if packed in ("zip", "tar"):
        shown = ", ".join(evidence.members[:4])
        if not shown:
            return FileKind(f"{packed} archive that is empty, truncated or corrupt", _always, _FETCH_AGAIN)
        return FileKind(f"{packed} archive without a known model ({shown})", _always, help)
    inner = _inner_evidence(evidence, head_bytes)
    if inner is None:
        return FileKind(f"file compressed with {packed} that is truncated or corrupt", _always, _FETCH_AGAIN)
    kind = find_kind(inner)
    if kind is None:
        return FileKind(f"file compressed with {packed}, without a known model", _always, help)
    return FileKind(f"file compressed with {packed}, with content of another kind: {kind.name}", _always, kind.remedy)


def _inner_evidence(evidence: Evidence, head_bytes: int) -> Evidence | None:
    """The head of the content of a compressed file; `None` if it is not compressed or damaged."""
    for mark, _, extensions, open_ in _COMPRESSIONS:
        if evidence.head.startswith(mark):
            name = evidence.path.name
            ending = next((each for each in extensions if name.lower().endswith(each)), "")
            name = name.removesuffix(name[-len(ending) :]) if ending else name
            try:
                with open_(evidence.path, "rb") as file:
                    return Evidence(Path(name.replace(".tgz", ".tar")), cast("IO[bytes]", file).read(head_bytes))
            except _FAULTS:
                return None
    return None


def _always(_evidence: Evidence) -> bool:
    return True


# ── candidates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _candidates(
    evidence: Evidence,
    extensions: Collection[str],
    head_bytes: int,
    recognize: Callable[[bytes], bool],
    head_of: Callable[[Evidence, str, int], bytes],
) -> list[str]:
    """The members that are models, by name and content."""
    if evidence.is_encrypted:
        return []
    named = [name for name in evidence.members if name.lower().endswith(tuple(extensions))]
    found = [name for name in named[:MAX_CANDIDATES] if recognize(head_of(evidence, name, head_bytes))]
    # A .caffemodel belongs to its .prototxt.
    return [name for name in found if not name.endswith(".caffemodel") or f"{name[:-11]}.prototxt" not in found]


def _select_model(evidence: Evidence, names: Sequence[str]) -> str | None:
    """Select the only model, or `model.onnx` among its variants (`model_fp16.onnx`)."""
    if len(names) < 2:
        return names[0] if names else None
    for preferred in EXPORTED:
        folder = preferred.removesuffix("model.onnx")
        if preferred in names and all(name == preferred or _is_variant(name, folder) for name in names):
            return preferred
    listed = ", ".join(names[:MAX_LISTED]) + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")
    message = f"{evidence.path.name or evidence.path} contains {len(names)} models: {listed}"
    verb = "pass a single model" if evidence.is_folder else "unpack the archive, and pass a single model"
    raise DiagnosticError(Diagnostic("IO0018", message, Span(Source(str(evidence.path))), verb))


def _is_variant(name: str, folder: str) -> bool:
    """Whether a file is a variant of `model.onnx` in a Hugging Face folder."""
    path = PurePosixPath(name)
    is_other_framework = path.name in ("tf_model.h5", "openvino_model.xml", "rust_model.ot", "model.tflite")
    return is_other_framework or (name.startswith(f"{folder}model_") and path.suffix == ".onnx")


def _folder_head(evidence: Evidence, name: str, head_bytes: int) -> bytes:
    try:
        # A pipe among the files would block.
        with open_regular(evidence.path / name) as file:
            return file.read(head_bytes)
    except OSError:
        return b""


def _member_head(evidence: Evidence, name: str, head_bytes: int) -> bytes:
    try:
        with _opened_member(evidence, name) as file:
            return file.read(head_bytes)
    except _FAULTS:
        return b""


@contextmanager
def _opened_member(evidence: Evidence, name: str) -> Generator[IO[bytes]]:
    if evidence.is_zip:
        with evidence.path.open("rb") as file, open_zip(file) as opened:
            stored = next(each for each in opened.namelist() if each == name or each.endswith(f"/{name}"))
            with opened.open(stored) as member:
                yield member
        return
    with tarfile.open(evidence.path, "r:") as opened:
        found = next(each for each in _tar_members(opened) if each.name == name or each.name.endswith(f"/{name}"))
        file = opened.extractfile(found)
        if file is None:
            raise tarfile.TarError(name)
        with file:
            yield file


def _tar_members(opened: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for count, member in enumerate(opened):
        if count >= MAX_MEMBERS:
            return
        if member.isfile():
            yield member


# ── unpacking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _workspace() -> Path:
    """A temporary folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="graphport-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_UNPACKED: dict[tuple[str, str, int, int], Path] = {}
"""Unpacked models by file, member, time of change and size."""


def workspace_file(path: Path, member: str, write: Callable[[Path], object]) -> Path:
    """The file `member` of a temporary folder that `write` has filled from the file at `path`, once per content."""
    status = path.stat()
    key = (str(path.resolve()), member, status.st_mtime_ns, status.st_size)
    if key not in _UNPACKED or not _UNPACKED[key].exists():
        folder = _workspace() / str(len(_UNPACKED))
        folder.mkdir(exist_ok=True)
        write(folder)
        _UNPACKED[key] = folder / member
    return _UNPACKED[key]


def _decompressed(evidence: Evidence, head_bytes: int, recognize: Callable[[bytes], bool]) -> Path | None:
    inner = _inner_evidence(evidence, head_bytes)
    if inner is None or not (inner.is_tar or inner.is_zip or recognize(inner.head)):
        return None
    open_ = next(each[3] for each in _COMPRESSIONS if evidence.head.startswith(each[0]))

    def write(folder: Path) -> None:
        with open_(evidence.path, "rb") as file:
            _Copier(evidence.path).copy(cast("IO[bytes]", file), folder / inner.path.name)

    with _archive_faults(evidence.path):
        return workspace_file(evidence.path, inner.path.name, write)


def _unpacked(evidence: Evidence, name: str) -> Path:
    """Unpack a model and all files of its folder, because they may be its weights."""
    folder_of_model = name.rpartition("/")[0]
    needed = [each for each in evidence.members if each.startswith(f"{folder_of_model}/" if folder_of_model else "")]

    def write(folder: Path) -> None:
        copier = _Copier(evidence.path)
        for member in needed:
            parts = PurePosixPath(member).parts
            if ".." in parts or "\\" in member or PurePosixPath(member).is_absolute():
                continue
            if len(parts) > _MAX_FOLDERS:
                message = f"a member is nested {len(parts) - 1} folders deep, the limit is {_MAX_FOLDERS}"
                raise tarfile.TarError(message)
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with _opened_member(evidence, member) as file:
                copier.copy(file, target)

    with _archive_faults(evidence.path):
        return workspace_file(evidence.path, name, write)


class _Copier:
    """Copies members, and counts their bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        most = budget.limit("container.unpacked", MAX_UNPACKED_BYTES)
        self._limit = self._left = min(most, max(MAX_BYTES_AT_ANY_RATIO, MAX_RATIO * path.stat().st_size))

    def copy(self, source: IO[bytes], target: Path) -> None:
        """Copy a stream to a file.

        Raises:
            DiagnosticError: IO0019 the members exceed the limit.
        """
        with target.open("xb") as file:
            while chunk := source.read(_CHUNK):
                self._left -= len(chunk)
                if self._left < 0:
                    message = f"{self._path.name} unpacks to more than {self._limit} bytes"
                    help = "unpack it and pass the model, or set GRAPHPORT_LIMITS=container.unpacked=N"
                    raise DiagnosticError(Diagnostic("IO0019", message, Span(Source(str(self._path))), help))
                file.write(chunk)


@contextmanager
def _archive_faults(path: Path) -> Generator[None]:
    try:
        yield
    except _FAULTS as error:
        message = f"{path.name} cannot be unpacked: {error}"
        help = "download it again, or unpack it and pass the model: the archive is corrupt or protected"
        raise DiagnosticError(Diagnostic("IO0019", message, Span(Source(str(path))), help)) from error
