"""Access to sidecar files (external weights) of a model."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from graphport.core.storage import MappedFile

if TYPE_CHECKING:
    from pathlib import Path


class OutsideError(Exception):
    """A location is outside the folder; the message states the reason, `help` the remedy."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


class AbsentError(Exception):
    """No readable regular file exists at a location; the message states the reason, `help` the remedy."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


def open_sidecar(folder: Path | None, home: Path | None, location: str) -> MappedFile:
    """Open the file at a location below a folder.

    A location is relative, contains no `..`, and leaves the folder through no symbolic link, except into `home`. `home`
    is the real folder of a model that is itself a link, as in caches that store each file once; it is searched if
    `folder` has no such file. A model in memory has no folder and no sidecar files.

    Raises:
        OutsideError: the location is outside the folder.
        AbsentError: no regular file exists there.
    """
    if folder is None:
        message = f"external weights {location!r} cannot be located: the model was loaded from memory"
        raise AbsentError(message, "pass the folder of the weights with `folder`")
    if not _is_inside(location):
        message = f"the location {location!r} is outside of the model's folder"
        raise OutsideError(message, "store weights in the model's folder, and use a relative path without '..'")
    path = folder / location
    if home is not None and not os.path.lexists(path):
        path = home / location
    try:
        real = path.resolve(strict=True)
        is_regular = stat.S_ISREG(real.stat().st_mode)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"{path} cannot be read: {reason}"
        raise AbsentError(message, "place the file in the model's folder") from error
    if not any(real.is_relative_to(root.resolve()) for root in (folder, home) if root is not None):
        message = f"{location!r} is a link to {real}, outside of the model's folder"
        raise OutsideError(message, "copy the file (or make a hard link) into the folder")
    if not is_regular:
        message = f"{path} is not a regular file"
        raise AbsentError(message)
    file = MappedFile(real)
    # Map the file now: the mapping stays valid if the model is overwritten.
    file.view(0, 0)
    return file


def _is_inside(location: str) -> bool:
    """Whether a location is lexically inside a folder on every operating system."""
    parts = location.replace("\\", "/").split("/")
    is_rooted = location.startswith(("/", "\\")) or ":" in parts[0] or os.path.isabs(location)  # noqa: PTH117
    return bool(location) and "\0" not in location and not is_rooted and ".." not in parts
