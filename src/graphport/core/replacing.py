"""Files that appear whole: written beside their places, flushed, and moved there together.

One file is moved by one step of the system, which happens or does not. Several that belong together (a graph and its
weights) cannot be: so what is to be moved is written down first, and the old graph is taken away before the first move.
Who is ended meanwhile leaves no mixture that loads: other programs find no graph, and `recover`, which reading and
writing begin with, finishes the moves. Before the note is written the old files are whole, after it the new ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import threading
from contextlib import ExitStack, contextmanager, suppress
from errno import EEXIST, EXDEV
from io import BufferedRandom, FileIO
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from graphport.core.opening import belonging
from graphport.core.system import lives

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    Path_ = str | os.PathLike[str]

UNFLUSHED = "GRAPHPORT_UNFLUSHED"
"""Environment variable: set, files are not flushed to the disk; quicker, and a crash of the machine may cost them."""

_ENDING = ".part"
_NOTE = ".moves"
_BESIDE = re.compile(r"\.(?P<name>.+)\.(?P<process>[0-9]+)-[0-9a-f]{8}\.part")
_MOST_NOTE = 1 << 16
_MOST_NAMED = 3
_AHEAD = 1 << 24
"""Bytes after which the disk is asked to begin with what was written."""


class _Named(FileIO):
    """A file whose faults name the file that it is going to be."""

    def __init__(self, path: Path, target: Path) -> None:
        super().__init__(path, "w+b")
        self._target = target
        self._waiting = 0
        self._begun = 0

    def write(self, data: Any, /) -> int | None:
        with _naming(self._target):
            count = super().write(data)
        self._waiting += count or 0
        if self._waiting >= _AHEAD:
            self._begin()
        return count

    def _begin(self) -> None:
        """Have the disk begin, so that it works while the rest is written, and `_flush` has little to wait for."""
        self._waiting, start = 0, self._begun
        self._begun = max(start, self.tell())
        if start < self._begun and _flushes() and hasattr(os, "posix_fadvise"):
            # Not needed soon: pages that are to be written are put in the queue of the disk, and kept.
            with suppress(OSError):
                os.posix_fadvise(self.fileno(), start, self._begun - start, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int | None = None, /) -> int:
        with _naming(self._target):
            return super().truncate(size)

    def close(self) -> None:
        with _naming(self._target):
            super().close()


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Let a fault of the system inside name that file."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


class Replacing:
    """Files that become visible together when the block ends; made by `together`."""

    def __init__(self, graph: Path_ | None) -> None:
        self._graph = None if graph is None else Path(graph)
        self.moves: list[tuple[Path, Path]] = []
        self._stack = ExitStack()

    def open(self, path: Path_) -> BinaryIO:
        """A file to write, which becomes `path`; the one opened last is the graph, that the others belong to."""
        target = _target(path if self._graph is None else belonging(Path(path), self._graph))
        beside = beside_of(target)
        file = self._stack.enter_context(BufferedRandom(_Named(beside, target)))
        self.moves.append((beside, target))
        return cast("BinaryIO", file)

    def finish(self) -> None:
        """Flush what was written and move it to its places."""
        for beside, _ in self.moves:
            beside.chmod(0o666 & ~_mask())
        self._stack.close()
        move(self.moves)

    def give_up(self) -> None:
        """Remove what was written."""
        self._stack.close()
        for beside, _ in self.moves:
            beside.unlink(missing_ok=True)


@contextmanager
def together(graph: Path_ | None = None) -> Generator[Replacing]:
    """Files that are there together when the block ends; when it fails nothing has changed.

    Where `graph`, the one that the others belong to, is a link, all are written where it leads to.

    Raises:
        OSError: a folder is not there or cannot be written, or there is no room; links lead to different folders.
    """
    files = Replacing(graph)
    try:
        yield files
        files.finish()
    except BaseException:
        files.give_up()
        raise


@contextmanager
def replacing(path: Path_) -> Generator[BinaryIO]:
    """A file to write; when the block ends it is `path`, when the block fails nothing has changed.

    Whoever reads `path` meanwhile sees the old file or the new one, whole. A link stays one: what it leads to is
    replaced.

    Raises:
        OSError: the folder is not there or cannot be written, or there is no room; `path` is a pipe or a device.
    """
    with together() as files:
        yield files.open(path)


def beside_of(path: Path) -> Path:
    """A new name beside `path` for what is going to be moved there; `recover` knows such names."""
    return path.with_name(f".{path.name}.{os.getpid()}-{token_hex(4)}{_ENDING}")


def move(moves: Sequence[tuple[Path, Path]]) -> None:
    """Move files and folders to their places, where they are seen together; the last one is the graph.

    All sources lie beside their targets, under names of `beside_of`, or in a folder of such a name.

    Raises:
        OSError: a move is not allowed; where it was the first, nothing has changed. Weights of a new graph would take
            the place of a file that another graph of the same stem may own, or be in another folder.
    """
    if not moves:
        return
    for source, target in moves:
        if target.is_dir() and not source.is_dir():
            raise IsADirectoryError(21, "it is a folder", os.fspath(target))
        with _naming(target):
            _flush(source)
    folder, note = moves[-1][1].parent, _note_of(moves[-1][1])
    astray = next((target for _, target in moves if target.parent != folder), None)
    if astray is not None:
        graph = moves[-1][1]
        text = f"by links it would be {graph}, and its weights {astray}: write it to one folder, or remove the links"
        raise OSError(EXDEV, text, os.fspath(graph))
    with _locked(folder), _uninterrupted():
        left = _read_note(note)
        if left is not None:
            _settle(note, left)
        _refuse_overlap([target for _, target in moves])
        if len(moves) > 1 or moves[0][1].is_dir() or not _replaced(*moves[0]):
            with _naming(moves[-1][1]):
                _write_note(note, moves)
                _settle(note, moves)
        _sweep(folder, {target.name for _, target in moves})
    with _naming(moves[-1][1]):
        _flush(folder)


def _replaced(source: Path, target: Path) -> bool:
    """Whether one file took the place of another; Windows lets none that is mapped be replaced, only be renamed."""
    try:
        source.replace(target)
    except PermissionError:
        if not os.path.lexists(target):
            raise
        return False
    return True


def _refuse_overlap(targets: Sequence[Path]) -> None:
    """Refuse to put weights of a new graph where those of another one may be: `a.xml` and `a.param` have an `a.bin`."""
    *weights, graph = targets
    taken = next((each for each in weights if each.exists() and not each.name.startswith(graph.name)), None)
    if taken is None or graph.exists():
        return
    names = {each.name for each in targets}
    others = sorted(
        each.name
        for each in graph.parent.iterdir()
        if each.name.startswith(f"{taken.stem}.") and each.name not in names and each.is_file()
    )
    if others:
        owners = " or ".join(others[:_MOST_NAMED])
        text = f"{taken.name} is there already and may belong to {owners}: choose another name, or remove it"
        raise FileExistsError(EEXIST, text, os.fspath(taken))


def recover(path: Path_) -> None:
    """Finish what a process that was ended had begun to move to `path`; usually there is nothing to do.

    Raises:
        OSError: it cannot be finished here.
    """
    try:
        if _is_plain(path) and not os.path.lexists(_note_beside(path)):
            return
        note = _note_of(_target_name(path))
    except ValueError:
        return  # the system has no such names
    if not os.path.lexists(note):
        return
    with _locked(note.parent), _uninterrupted():
        moves = _read_note(note)
        if moves is not None:
            _settle(note, moves)


def obstacle(folder: Path) -> str:
    """Why no file can be made in `folder`, in the words of the system; empty where one can be."""
    try:
        with TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _settle(note: Path, moves: Sequence[tuple[Path, Path]]) -> None:
    """Make the moves that a note tells of, those that are still to be made; then the note goes.

    What was there before goes out of the way, the graph first: nobody reads it with new weights.
    """
    open_ = [(source, target) for source, target in moves if os.path.lexists(source)]
    before = [(beside_of(target), target) for _, target in reversed(open_) if os.path.lexists(target)]
    made: list[tuple[Path, Path]] = []
    try:
        for way in (*((target, aside) for aside, target in before), *open_):
            way[0].rename(way[1])
            made.append(way)
    except OSError:
        for old, new in reversed(made):
            new.rename(old)
        note.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)
    for aside, _ in before:
        _remove(aside)
    for folder in {source.parent for source, _ in moves} - {note.parent}:
        with suppress(OSError):
            folder.rmdir()


def _write_note(note: Path, moves: Sequence[tuple[Path, Path]]) -> None:
    beside = beside_of(moves[-1][1])
    with beside.open("w", encoding="utf-8", errors="surrogatepass") as file:
        folder = note.parent
        json.dump([[os.path.relpath(source, folder), target.name] for source, target in moves], file)
    _flush(beside)
    beside.replace(note)
    _flush(note.parent)


def _read_note(note: Path) -> list[tuple[Path, Path]] | None:
    """The moves of a note; nobody else's files are moved, whatever it says."""
    try:
        if not stat.S_ISREG(note.lstat().st_mode) or note.lstat().st_size > _MOST_NOTE:
            return None
        stated = json.loads(note.read_text("utf-8", "surrogatepass"))
        moves = [(note.parent / source, note.parent / target) for source, target in stated]
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    folder = note.parent
    for source, target in moves:
        inner = source.relative_to(folder).parts
        is_ours = len(inner) <= 2 and ".." not in inner and _BESIDE.fullmatch(inner[0]) is not None
        if not is_ours or target.parent != folder or target.name in ("", ".", ".."):
            return None
    return moves


def _sweep(folder: Path, names: set[str]) -> None:
    """Remove what killed processes left beside files of these names."""
    for place in os.scandir(folder):
        found = _BESIDE.fullmatch(place.name)
        if found is not None and found["name"] in names and not lives(int(found["process"])):
            _remove(folder / place.name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        # Windows removes none that is mapped: whoever writes there next sweeps it.
        with suppress(PermissionError):
            path.unlink(missing_ok=True)


def _target(path: Path_) -> Path:
    """Where a file is going to be: what a link leads to.

    Raises:
        OSError: there is something that no file can take the place of.
    """
    target = _target_name(path)
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "it is a folder", os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(0, "it is a pipe, a socket or a device, which no file takes the place of", os.fspath(path))
    return target


def _target_name(path: Path_) -> Path:
    return Path(os.path.realpath(path))


def _is_plain(path: Path_) -> bool:
    """Whether a file is called as the path says, whatever folders lead to it; asked of every file that is read."""
    name = os.path.split(path)[1]
    return os.name == "posix" and name not in ("", ".", "..") and not os.path.islink(path)  # noqa: PTH114


def _note_beside(path: Path_) -> str:
    """`_note_of` a path that is plain."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{_NOTE}")  # noqa: PTH118


def _note_of(graph: Path) -> Path:
    return graph.with_name(f".{graph.name}{_NOTE}")


def _flush(path: Path) -> None:
    """Have the disk hold a file, or the files and names of a folder."""
    if not _flushes():
        return
    if path.is_dir() and not path.is_symlink():
        if path.name.endswith(_ENDING):
            for inner in sorted(path.rglob("*")):
                _flush_one(inner)
        if os.name != "posix":
            return  # folders are no files there
    _flush_one(path)


def _flushes() -> bool:
    return not os.environ.get(UNFLUSHED)


def _flush_one(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    except PermissionError:
        return  # a folder that may be written and not read
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Alone among those who move files in `folder`."""
    try:
        import fcntl
    except ImportError:
        yield  # Windows lets nobody rename what another one has open
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        yield
        return
    try:
        # Some network file systems have no locks.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Let signals that a program answers by ending wait until the block ends: whoever cleans up would remove half."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    handlers: dict[int, Any] = {}
    waiting: list[int] = []
    numbers = [int(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    try:
        for number in numbers:
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda number, _: waiting.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in waiting:
            signal.raise_signal(number)


def _mask() -> int:
    """The permissions that the user takes from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
