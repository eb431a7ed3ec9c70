"""Journals of writes that replace several files, to recover from a writer killed between two renames.

A journal has two files:

- the *marker* `.GRAPH.moves` in the folder of the model, which readers look for: they report it and never follow it;
- the *record* in the user's cache folder, which names the files. Only a writer that replaces the same files follows it,
  and only if marker and record belong to this user, contain the same random id, and every file has the inode number in
  the record. A marker that was downloaded with a model has no such record.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

from graphport.core.fsync import flush
from graphport.core.user_cache import cache_root, is_owned_by_user, is_private, make_private

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKER_ENDING = ".moves"
MAX_BYTES = 1 << 16

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Move:
    """One file or folder that is replaced.

    `number` and `old_number` are the inode numbers of the new and of the old file.
    """

    source: Path
    target: Path
    aside: Path
    """Path of the old file until all moves are finished."""
    number: int
    old_number: int | None
    """`None` where there is no old one."""

    @property
    def is_done(self) -> bool:
        """Whether the new file is at its target."""
        return inode(self.target) == self.number

    @property
    def is_pending(self) -> bool:
        """Whether the new file is at its temporary path, and the old one, if any, at the target or its backup path."""
        if inode(self.source) != self.number:
            return False
        at_target, at_aside = inode(self.target), inode(self.aside)
        if at_target is None:
            return at_aside in (None, self.old_number)
        return at_target == self.old_number and at_aside is None


@dataclass(frozen=True, slots=True)
class Journal:
    """The moves of one write, the graph last."""

    id: str
    moves: tuple[Move, ...]

    @property
    def is_current(self) -> bool:
        """Whether no other program has changed the files since."""
        return all(move.is_done or move.is_pending for move in self.moves)


def planned(moves: Sequence[tuple[Path, Path, Path]]) -> Journal:
    """Return a journal of moves, each with source, target and the temporary name of the old file."""
    found = [Move(source, target, aside, os.lstat(source).st_ino, inode(target)) for source, target, aside in moves]
    return Journal(token_hex(16), tuple(found))


def inode(path: Path) -> int | None:
    """Return the inode number of `path` without following links; `None` if it does not exist."""
    try:
        return path.lstat().st_ino
    except (OSError, ValueError):
        return None


def marker_of(graph: Path) -> Path:
    """The marker of a graph."""
    return graph.with_name(f".{graph.name}{MARKER_ENDING}")


def write(journal: Journal, part: Path, marker: Path) -> bool:
    """Write the record, then the marker, through the temporary file `part`; return whether both were written.

    If the cache folder cannot be used, no record is written, and the user must finish the moves by hand. If a marker of
    another user or program exists, it is left unchanged, and this write has no journal.

    Raises:
        OSError: the marker cannot be written.
    """
    if os.path.lexists(marker):
        return False
    with suppress(OSError):
        _write_record(journal, marker)
    # The names are for a user who finishes by hand; no program follows them.
    names = [[_relative(path, marker) for path in (m.source, m.target, m.aside)] for m in journal.moves]
    try:
        _write_private(part, {"id": journal.id, "moves": names})
        flush(part)
        part.rename(marker)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    flush(marker.parent)
    return True


def remove(marker: Path) -> None:
    """Remove the marker and its record: the moves are made."""
    marker.unlink(missing_ok=True)
    record = _record_of(marker)
    if record is not None:
        with suppress(OSError):
            record.unlink(missing_ok=True)


def read(marker: Path) -> Journal | None:
    """The journal of a marker, if this user's process has written both marker and record; else `None`."""
    record = _record_of(marker)
    if record is None or not is_private(record.parent):
        return None
    stated, recorded = _read_private(marker), _read_private(record)
    if stated is None or recorded is None:
        return None
    key = stated.get("id")
    if not isinstance(key, str) or not _ID.fullmatch(key) or recorded.get("id") != key:
        return None
    try:
        if recorded["folder"] != inode(marker.parent):
            return None
        return Journal(key, tuple(_move(marker.parent, each) for each in recorded["moves"]))
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _move(folder: Path, stated: Any) -> Move:
    source, target, aside, number, old_number = stated
    if len(Path(source).parts) > 2 or len(Path(target).parts) != 1 or len(Path(aside).parts) != 1:
        raise ValueError(source)
    return Move(folder / source, folder / target, folder / aside, int(number), old_number)


def _write_record(journal: Journal, marker: Path) -> None:
    record = _record_of(marker)
    if record is None or not make_private(record.parent):
        return
    moves = [
        [*(_relative(path, marker) for path in (m.source, m.target, m.aside)), m.number, m.old_number]
        for m in journal.moves
    ]
    part = record.with_name(f"{record.name}.{os.getpid()}-{token_hex(4)}.part")
    try:
        _write_private(part, {"id": journal.id, "folder": inode(marker.parent), "moves": moves})
        flush(part)
        part.replace(record)
    finally:
        part.unlink(missing_ok=True)


def _record_of(marker: Path) -> Path | None:
    """Return the path of a marker's record in the cache folder; `None` if that is inside the model's folder."""
    root = cache_root()
    if root is None:
        return None
    real, folder = os.path.realpath(root), os.path.realpath(marker.parent)
    if Path(real).is_relative_to(folder):
        return None
    name = hashlib.sha256(os.fsencode(os.path.join(folder, marker.name))).hexdigest()  # noqa: PTH118  `realpath` is text
    return Path(real) / "journals" / f"{name}.json"


def _relative(path: Path, marker: Path) -> str:
    return os.path.relpath(path, marker.parent)


def _write_private(path: Path, content: dict[str, Any]) -> None:
    """Write a new file that this user alone can read and write."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(json.dumps(content).encode("ascii"))


def _read_private(path: Path) -> dict[str, Any] | None:
    """The content of a file that this user has written with `_write_private`; `None` for any other."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError):
        return None
    try:
        if not _is_private_file(os.fstat(handle)):
            return None
        found = json.loads(os.read(handle, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(handle)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _is_private_file(status: os.stat_result) -> bool:
    """Whether a file is one that `_write_private` makes."""
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES or status.st_nlink != 1:
        return False
    return is_owned_by_user(status) and (not hasattr(os, "geteuid") or stat.S_IMODE(status.st_mode) == 0o600)
