"""Files that lie beside a model, and belong to it: which may be read."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from graphport.core.storage import MappedFile

if TYPE_CHECKING:
    from pathlib import Path


class OutsideError(Exception):
    """A location leaves the folder; the text says how, `help` what to do."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


class AbsentError(Exception):
    """There is no regular file that can be read; the text says why, `help` what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


def open_beside(folder: Path | None, home: Path | None, location: str) -> MappedFile:
    """The file at a location below a folder.

    A location is relative, holds no `..`, and leaves the folder through no symbolic link, unless into `home`: that is
    where a model lies that is a link itself, as in caches that keep each file once; there it is looked for, too, where
    there is nothing below `folder`. Without a folder, as for a model in
    memory, there are no files.

    Raises:
        OutsideError: it leaves the folder.
        AbsentError: nothing regular is there.
    """
    if folder is None:
        message = f"its numbers are in the file {location!r}, and a model in memory has no folder"
        raise AbsentError(message, "say where its files are with `folder`")
    if not _is_inside(location):
        message = f"the location {location!r} leaves the folder of the model"
        raise OutsideError(message, "keep weights beside the model, under a relative path without '..'")
    path = folder / location
    if home is not None and not os.path.lexists(path):
        path = home / location
    try:
        real = path.resolve(strict=True)
        is_regular = stat.S_ISREG(real.stat().st_mode)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"{path} cannot be read: {reason}"
        raise AbsentError(message, "put the file beside the model") from error
    if not any(real.is_relative_to(root.resolve()) for root in (folder, home) if root is not None):
        message = f"{location!r} is a link to {real}, outside of the folder of the model"
        raise OutsideError(message, "copy the file (or make a hard link) into the folder")
    if not is_regular:
        message = f"{path} is no regular file"
        raise AbsentError(message)
    file = MappedFile(real)
    # Mapped now, it stays what it is should a model be written over it.
    file.view(0, 0)
    return file


def _is_inside(location: str) -> bool:
    """Whether a location, as it stands, names something below a folder on any system."""
    parts = location.replace("\\", "/").split("/")
    is_rooted = location.startswith(("/", "\\")) or ":" in parts[0] or os.path.isabs(location)  # noqa: PTH117
    return bool(location) and "\0" not in location and not is_rooted and ".." not in parts
