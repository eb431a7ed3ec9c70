"""Remedies for errors of the operating system while a file is written."""

from __future__ import annotations

import errno

_REMEDIES = {
    errno.ENOENT: "create the folder of the file, or choose another path",
    errno.ENOTDIR: "choose a path whose folder is not a file",
    errno.EACCES: "check the permissions, or choose another path",
    errno.EPERM: "check the permissions, or choose another path",
    errno.EROFS: "choose a path on a file system that is not read-only",
    errno.ENOSPC: "free disk space, or choose another path",
    errno.EDQUOT: "free disk space, or choose another path",
    errno.EFBIG: "raise the limit of the file size (ulimit -f), or choose another path",
}


def write_remedy(error: Exception) -> str:
    """Return the remedy for an error of the operating system; other errors need another path."""
    number = error.errno if isinstance(error, OSError) else None
    return _REMEDIES.get(number or 0, "check the permissions and the free disk space, or choose another path")
