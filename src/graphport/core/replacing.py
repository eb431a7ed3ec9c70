"""Writing a file beside its place and moving it there when it is whole."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """A file to write; when the block ends it is `path`, when the block fails nothing has changed.

    Whoever reads `path` meanwhile sees the old file or the new one, whole. A link stays one: what it leads to is
    replaced.

    Raises:
        OSError: the folder is not there or cannot be written, or there is no room.
    """
    target = Path(os.path.realpath(path))
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        beside = Path(file.name)
        try:
            yield cast("BinaryIO", file)
            file.flush()
            beside.chmod(0o666 & ~_mask())
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def obstacle(folder: Path) -> str:
    """Why no file can be made in `folder`, in the words of the system; empty where one can be."""
    try:
        with TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _mask() -> int:
    """The permissions that the user takes from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
