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
    # The specification of XDG says to ignore a relative path: it would name a folder of whoever sent the model.
    if sys.platform != "darwin" and Path(given).is_absolute():
        root = given
    with suppress(RuntimeError):
        return Path(root).expanduser() / "graphport"
    return None


def make_private(folder: Path) -> bool:
    """Make `folder` if there is none; whether it is one that only this user can write to."""
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
    return stat.S_ISDIR(status.st_mode) and is_own(status) and not _is_open_to_others(status)


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this user; Windows does not say."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_open_to_others(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and bool(status.st_mode & 0o022)
