"""The one way to a file that somebody names: regular files only, whose size is known before they are read."""

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


def regular(path: str | os.PathLike[str]) -> os.stat_result:
    """What the system says of a regular file, links followed.

    Raises:
        OSError: there is none, or it is a folder, a pipe, a socket or a device: who reads such may wait or read for
            ever.
    """
    status = os.stat(path)  # noqa: PTH116  a path may be anything that names a file
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(0, f"it is {_KINDS.get(kind, 'no regular file')}, no file", os.fspath(path))
    return status


def belonging(beside: Path, graph: Path) -> Path:
    """Where a file of a model is that is to lie beside its graph.

    Where the graph is a link to a file of the same name, and there is nothing beside the link, it lies beside what the
    link leads to.
    """
    if not graph.is_symlink() or os.path.lexists(beside):
        return beside
    real = Path(os.path.realpath(graph))
    return real.with_name(beside.name) if real.name == graph.name else beside


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, to be read.

    Raises:
        OSError: as `regular`.
    """
    regular(path)
    return Path(path).open("rb")


def beginning(path: str | os.PathLike[str], most: int) -> bytes:
    """At most so many of the first bytes of a regular file, read at once; small files are read by the thousand.

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
    with opened(path) as file:
        return file.read()
