"""Atomic writes: files are written under temporary names, flushed, and renamed together.

A single file is replaced by one atomic rename. For several files of one model (a graph and its weights) a journal is
written first (`core.journals`), and the old graph is renamed to a temporary name before the first new file is moved: a
killed process leaves the old files, the new ones, or no graph, and never a loadable mixture.

The next writer of the same files completes an interrupted write. A reader reports it (`interruption`) and changes
nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import EAGAIN, EEXIST, EXDEV
from io import BufferedRandom, FileIO
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from graphport.core import journals
from graphport.core.fsync import flush, is_flushing
from graphport.core.regular_files import belonging
from graphport.core.system import lives
from graphport.core.user_cache import is_owned_by_user

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    Path_ = str | os.PathLike[str]

_ENDING = ".part"
_BESIDE = re.compile(r"\.(?P<name>.+)\.(?P<process>[0-9]+)-[0-9a-f]{8}\.part")
_MOST_NAMED = 3
_AHEAD = 1 << 24
"""Number of bytes after which the system is asked to start writing to disk."""

TEMPORARY = "graphport-"
"""What names of folders begin with that are made for runtimes, in the system's folder for temporary files."""

_LOCK_SECONDS = 60.0
"""Seconds that a writer waits for another writer in the same folder."""

_POLL_SECONDS = 0.01


class _Named(FileIO):
    """A temporary file whose operating system errors name the final path."""

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
        """Ask the system to start writing to disk, so that `_flush` finishes sooner."""
        self._waiting, start = 0, self._begun
        self._begun = max(start, self.tell())
        if start < self._begun and is_flushing() and hasattr(os, "posix_fadvise"):
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
    """Set `path` as the file name of operating system errors inside the block."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


class Replacing:
    """Files that become visible together at the end of the block; created by `together`."""

    def __init__(self, graph: Path_ | None) -> None:
        self._graph = None if graph is None else Path(graph)
        self.moves: list[tuple[Path, Path]] = []
        self._stack = ExitStack()

    def open_file(self, path: Path_) -> BinaryIO:
        """Open a file that will be moved to `path`; the file opened last is the graph that the others belong to."""
        target = _target(path if self._graph is None else belonging(Path(path), self._graph))
        beside = temporary_path(target)
        file = self._stack.enter_context(BufferedRandom(_Named(beside, target)))
        self.moves.append((beside, target))
        return cast("BinaryIO", file)

    def finish(self) -> None:
        """Flush all written files and move them into place."""
        for beside, _ in self.moves:
            beside.chmod(0o666 & ~_mask())
        self._stack.close()
        move(self.moves)

    def give_up(self) -> None:
        """Remove all written files."""
        self._stack.close()
        for beside, _ in self.moves:
            beside.unlink(missing_ok=True)


@contextmanager
def together(graph: Path_ | None = None) -> Generator[Replacing]:
    """Replace files together at the end of the block; on failure nothing is changed.

    If `graph`, which the other files belong to, is a link, all files are written to the folder of its target.

    Raises:
        OSError: a folder does not exist or is not writable, the disk is full, or links lead to different folders.
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
    """Open a file that replaces `path` at the end of the block; on failure nothing is changed.

    Readers of `path` see either the complete old file or the complete new one. A link is kept, and its target is
    replaced.

    Raises:
        OSError: the folder does not exist or is not writable, the disk is full, or `path` is a pipe or a device.
    """
    with together() as files:
        yield files.open_file(path)


def temporary_path(path: Path) -> Path:
    """A new temporary name in the folder of `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}-{token_hex(4)}{_ENDING}")


def move(moves: Sequence[tuple[Path, Path]]) -> None:
    """Move files and folders into place so that they become visible together; the last one is the graph.

    Each source is in the folder of its target, under a name from `beside_of`, or in a folder with that name.

    Raises:
        OSError: a move is not permitted; if it was the first one, nothing has changed. Weights of a new graph would
            replace a file that another graph of the same stem may use, or be in another folder.
    """
    if not moves:
        return
    for source, target in moves:
        if target.is_dir() and not source.is_dir():
            raise IsADirectoryError(21, "it is a folder", os.fspath(target))
        with _naming(target):
            _flush(source)
    graph = moves[-1][1]
    folder, marker = graph.parent, journals.marker_of(graph)
    astray = next((target for _, target in moves if target.parent != folder), None)
    if astray is not None:
        text = f"by links it would be {graph}, and its weights {astray}: write it to one folder, or remove the links"
        raise OSError(EXDEV, text, os.fspath(graph))
    targets = [target for _, target in moves]
    with _locked(folder), _uninterrupted():
        _finish_interrupted(marker, targets)
        _refuse_overlap(targets)
        if len(moves) > 1 or moves[0][1].is_dir() or not _replaced(*moves[0]):
            with _naming(graph):
                _move_together(marker, moves)
        _sweep(folder, moves, _interrupted_names(marker))
    with _naming(graph):
        flush(folder)


def _move_together(marker: Path, moves: Sequence[tuple[Path, Path]]) -> None:
    journal = journals.planned([(source, target, temporary_path(target)) for source, target in moves])
    # A temporary folder disappears with this process, so an interrupted write to it is never completed.
    has_marker = not _is_temporary(marker.parent) and journals.write(journal, temporary_path(moves[-1][1]), marker)
    try:
        _settle(journal)
    except OSError:
        is_as_before = all(journals.inode(each.target) == each.old_number for each in journal.moves)
        if has_marker and is_as_before:
            journals.remove(marker)
        raise
    if has_marker:
        journals.remove(marker)
    _clear(journal)


def _is_temporary(folder: Path) -> bool:
    """Whether a folder is one that `TEMPORARY` names, as `tempfile.TemporaryDirectory` makes it."""
    return folder.name.startswith(TEMPORARY) and str(folder.parent) == os.path.realpath(gettempdir())


def _finish_interrupted(marker: Path, targets: Sequence[Path]) -> None:
    """Complete an interrupted write of the same model, if a process of this user began it.

    A journal of another user, or of files that have changed since, is left unchanged.
    """
    journal = journals.read(marker)
    if (
        journal is None
        or not journal.is_current
        or not all(_is_derived(each.target, targets) for each in journal.moves)
    ):
        return
    _settle(journal)
    journals.remove(marker)
    _clear(journal)


def _is_derived(target: Path, targets: Sequence[Path]) -> bool:
    """Whether a write of `targets`, the graph last, could write `target` as well, by its name."""
    base = targets[-1].name.partition(".")[0]
    return target in targets or (bool(base) and target.name.startswith((f"{base}.", f"{base}_")))


def _replaced(source: Path, target: Path) -> bool:
    """Rename `source` to `target`; return whether that was possible (not over a mapped file on Windows)."""
    try:
        source.replace(target)
    except PermissionError:
        if not os.path.lexists(target):
            raise
        return False
    return True


def _refuse_overlap(targets: Sequence[Path]) -> None:
    """Refuse to replace weights that may belong to another graph: `a.xml` and `a.param` both use `a.bin`."""
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
        text = f"{taken.name} exists and may belong to {owners}: choose another name, or remove it"
        raise FileExistsError(EEXIST, text, os.fspath(taken))


@dataclass(frozen=True, slots=True)
class Interruption:
    """A marker of an interrupted write in the folder of a graph."""

    marker: Path
    is_incomplete: bool
    """Whether files of the model are missing: this user's process was stopped between two renames."""
    missing: tuple[str, ...] = ()
    """Names of the files that are missing."""
    restore: str = ""
    """A command of the shell that brings the old files back; empty where there were none."""


def interruption(path: Path_) -> Interruption | None:
    """Return the interrupted write of the graph at `path`, usually `None`. Changes nothing."""
    try:
        if _has_exact_name(path):
            folder, name = os.path.split(path)
            marker = os.path.join(folder, f".{name}{journals.MARKER_ENDING}")  # noqa: PTH118  called for every file
            if not os.path.lexists(marker):
                return None
        graph = _target_name(path)
        marker = journals.marker_of(graph)
        if not os.path.lexists(marker):
            return None
        journal = journals.read(marker)
    except (OSError, ValueError):
        return None  # names that are invalid on this system
    if journal is None or not journal.is_current or all(m.is_done for m in journal.moves) or graph.exists():
        return Interruption(marker, is_incomplete=False)
    missing = tuple(m.target.name for m in journal.moves if journals.inode(m.target) is None)
    return Interruption(marker, bool(missing), missing, _restoring(marker, journal))


def interrupted_with(path: Path) -> Interruption | None:
    """Return the interrupted write of several graphs, one of which is missing at `path`."""
    try:
        found = [each for each in path.parent.iterdir() if each.name.endswith(journals.MARKER_ENDING)]
    except (OSError, ValueError):
        return None
    for marker in sorted(found):
        journal = journals.read(marker)
        if journal is not None and any(m.target.name == path.name for m in journal.moves):
            return interruption(marker.with_name(marker.name[1 : -len(journals.MARKER_ENDING)]))
    return None


def _restoring(marker: Path, journal: journals.Journal) -> str:
    """A command that brings back the old files of an interrupted write."""
    if any(m.old_number is not None and journals.inode(m.aside) is None for m in journal.moves if m.is_done):
        return ""
    old = [m for m in journal.moves if m.old_number is not None and journals.inode(m.aside) == m.old_number]
    steps = [f"mv -- {shlex.quote(m.aside.name)} {shlex.quote(m.target.name)}" for m in old]
    return " && ".join([*steps, f"rm -- {shlex.quote(marker.name)}"]) if steps else ""


def obstacle(folder: Path) -> str:
    """Return the system's message why no file can be created in `folder`; empty if it is possible."""
    try:
        with TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _settle(journal: journals.Journal) -> None:
    """Make the remaining moves of a journal.

    The old files are renamed first, beginning with the graph: no program reads it with new weights.

    Raises:
        OSError: a rename failed; all old files are restored.
    """
    pending = [move for move in journal.moves if not move.is_done]
    before = [(m.target, m.aside) for m in reversed(pending) if os.path.lexists(m.target)]
    made: list[tuple[Path, Path]] = []
    try:
        for old, new in (*before, *((move.source, move.target) for move in pending)):
            old.rename(new)
            made.append((old, new))
    except OSError:
        for old, new in reversed(made):
            new.rename(old)
        raise


def _clear(journal: journals.Journal) -> None:
    """Remove the old files, and the temporary folders of the new files."""
    for move in journal.moves:
        if move.old_number is not None and journals.inode(move.aside) == move.old_number:
            _remove(move.aside)
    for folder in {move.source.parent for move in journal.moves} - {journal.moves[-1].target.parent}:
        with suppress(OSError):
            folder.rmdir()


def _interrupted_names(marker: Path) -> set[str]:
    """Return the names in the folder that an unchanged journal refers to."""
    journal = journals.read(marker)
    if journal is None:
        return set()
    paths = [path for move in journal.moves for path in (move.source, move.aside)]
    return {path.relative_to(marker.parent).parts[0] for path in paths}


def _sweep(folder: Path, moves: Sequence[tuple[Path, Path]], kept: Collection[str]) -> None:
    """Remove temporary files and folders that killed processes of this user left for files with these names."""
    names = {target.name for _, target in moves}
    for place in os.scandir(folder):
        found = _BESIDE.fullmatch(place.name)
        if found is None or found["name"] not in names or place.name in kept or lives(int(found["process"])):
            continue
        with suppress(OSError):
            if is_owned_by_user(place.stat(follow_symlinks=False)):
                _remove(folder / place.name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        # Windows does not remove mapped files: the next writer in this folder removes them.
        with suppress(PermissionError):
            path.unlink(missing_ok=True)


def _target(path: Path_) -> Path:
    """Return the path to write to: the target of a link.

    Raises:
        OSError: the path cannot be replaced by a file.
    """
    target = _target_name(path)
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "it is a folder", os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(0, "it is a pipe, a socket or a device, which cannot be replaced by a file", os.fspath(path))
    return target


def _target_name(path: Path_) -> Path:
    return Path(os.path.realpath(path))


def _has_exact_name(path: Path_) -> bool:
    """Whether the file's name on disk equals the last component of the path, ignoring links in folders."""
    name = os.path.split(path)[1]
    return os.name == "posix" and name not in ("", ".", "..") and not os.path.islink(path)  # noqa: PTH114


def _flush(path: Path) -> None:
    """Have the disk hold a file, or a folder with all its files if it is a temporary one."""
    if is_flushing() and path.is_dir() and not path.is_symlink() and path.name.endswith(_ENDING):
        for inner in sorted(path.rglob("*")):
            flush(inner)
    flush(path)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Hold the exclusive lock for moving files in `folder`.

    Raises:
        TimeoutError: another process holds the folder's lock.
    """
    try:
        import fcntl
    except ImportError:
        yield  # Windows does not rename a file that another process has open
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        yield
        return
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    text = f"another process has locked the folder for {_LOCK_SECONDS:.0f} s"
                    raise TimeoutError(EAGAIN, text, os.fspath(folder)) from None
                time.sleep(_POLL_SECONDS)
            except OSError:
                break  # some network file systems have no locks
            else:
                break
        yield
    finally:
        os.close(handle)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Defer signals that terminate the process until the block ends, so that a cleanup is not interrupted."""
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
    """Return the umask: the permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
