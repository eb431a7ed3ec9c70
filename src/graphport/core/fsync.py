"""Having the disk hold a file before the next step is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

UNFLUSHED = "GRAPHPORT_UNFLUSHED"
"""Environment variable: set, files are not flushed to the disk; quicker, and a crash of the machine may cost them."""


def is_flushing() -> bool:
    """Whether files are flushed to disk."""
    return not os.environ.get(UNFLUSHED)


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk.

    Raises:
        OSError: the disk does not.
    """
    if not is_flushing() or (os.name != "posix" and path.is_dir()):
        return  # on Windows folders are no files
    try:
        handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    except PermissionError:
        return  # a folder that may be written and not read
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
