"""The user's cache folder: where it is, and whether only this user can write to it."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path


def cache_root() -> Path | None:
    """The cache folder of graphport; `None` where the user has no home."""
    root = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification requires ignoring a relative path, which could refer to a folder of the model's author.
    if sys.platform != "darwin" and Path(given).is_absolute():
        root = given
    with suppress(RuntimeError):
        return Path(root).expanduser() / "graphport"
    return None


def make_private(folder: Path) -> bool:
    """Create `folder` if it is missing; return whether only this user can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return is_private(folder)


def is_private(folder: Path) -> bool:
    """Whether `folder` is a folder, no link, that only this user can write to."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and is_owned_by_user(status) and not _is_writable_by_others(status)


def is_owned_by_user(status: os.stat_result) -> bool:
    """Whether a file belongs to this user; always true on Windows."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_writable_by_others(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and bool(status.st_mode & 0o022)
