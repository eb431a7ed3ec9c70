"""Open files named by users: regular files only, whose size is known before reading."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def regular_status(path: str | os.PathLike[str]) -> os.stat_result:
    """Return the status of a regular file, with links followed.

    Raises:
        OSError: it does not exist, or is a folder, a pipe, a socket or a device, which may block a reader forever.
    """
    status = os.stat(path)  # noqa: PTH116  a path may be anything that names a file
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(0, f"it is {_KINDS.get(kind, 'not a regular file')}, expected a file", os.fspath(path))
    return status


def belonging(beside: Path, graph: Path) -> Path:
    """Return the path of a sidecar file of a graph.

    If the graph is a link to a file of the same name, and the sidecar file does not exist next to the link, it is next
    to the link's target.
    """
    if not graph.is_symlink() or os.path.lexists(beside):
        return beside
    real = Path(os.path.realpath(graph))
    return real.with_name(beside.name) if real.name == graph.name else beside


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: as `regular`.
    """
    regular_status(path)
    return Path(path).open("rb")


def beginning(path: str | os.PathLike[str], most: int) -> bytes:
    """Return at most the first `most` bytes of a regular file, read at once.

    Raises:
        OSError: it cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(handle, most)
    finally:
        os.close(handle)


def contents(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file.

    Raises:
        OSError: as `regular`.
    """
    with open_regular(path) as file:
        return file.read()
