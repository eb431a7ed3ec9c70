"""Names of files and archive members that are derived from names in a model.

A derived name is a relative path that no system interprets: no `..`, drive, reserved device, hidden file, trailing dot
or space, or control character. Two names differ in more than upper and lower case; no file is called as a folder.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

_SEPARATOR = re.compile(r"[/\\]")
_FORBIDDEN = re.compile('[<>:"|?*]')
_DEVICE = re.compile(
    r"(?:CON|PRN|AUX|NUL|CLOCK\$|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?", re.IGNORECASE
)
"""Device names of Windows, with any extension."""
MAX_PART_BYTES = 200
"""Bytes of one part of a path in UTF-8; file systems take 255, and an extension and a number follow."""
MAX_PATH_BYTES = 800
MAX_PARTS = 32


def safe_path(name: str) -> str:
    """Return `name` as a relative path with `/`; empty if no valid character remains."""
    parts = [safe_part(part) for part in _SEPARATOR.split(name)]
    found = [part for part in parts if part]
    path = "/".join(found)
    if len(found) <= MAX_PARTS and len(path.encode()) <= MAX_PATH_BYTES:
        return path
    return _shortened("_".join(found))


def safe_part(name: str) -> str:
    """Return `name` as one component of a path; separators become `_`, and `.` and `..` are removed."""
    text = "".join(c if c.isprintable() else "_" for c in name)
    text = _FORBIDDEN.sub("_", _SEPARATOR.sub("_", text)).strip(" ")
    stem = text.rstrip(". ")
    if not stem.strip(". "):
        return ""
    text = stem + "_" * (len(text) - len(stem))
    if text.startswith("."):
        text = f"_{text[1:]}"
    return _shortened(f"_{text}" if _DEVICE.fullmatch(text) else text)


def is_safe(path: str) -> bool:
    """Whether `path` is the name of a file inside a folder on every system."""
    return bool(path) and safe_path(path) == path


def _shortened(text: str) -> str:
    return text.encode()[:MAX_PART_BYTES].decode(errors="ignore").rstrip(". ")


class FileNames:
    """Distinct safe paths for contents; equal contents with one name share a path."""

    def __init__(self, extension: str = "") -> None:
        self._extension = extension
        self._files: dict[str, Hashable] = {}
        self._folders: set[str] = set()
        self._counters: dict[str, int] = {}

    def make(self, name: str, content: Hashable = None) -> str:
        """Return a path without extension for `content`: `name` made safe, with a numeric suffix if it is used."""
        base = safe_path(name) or "_"
        if any(parent in self._files for parent in _parents(_key(base))):
            base = safe_part(base)
        found = base
        while not self._claim(found, content):
            self._counters[base] = number = self._counters.get(base, 0) + 1
            found = f"{base}_{number}"
        return found

    def _claim(self, path: str, content: Hashable) -> bool:
        key = _key(f"{path}{self._extension}")
        if key in self._folders:
            return False
        if key in self._files:
            return content is not None and self._files[key] == content
        self._files[key] = content
        self._folders.update(_parents(key))
        return True


def _parents(path: str) -> list[str]:
    return [path[:index] for index, character in enumerate(path) if character == "/"]


def _key(path: str) -> str:
    """Return a key that is equal for two paths that a file system may identify."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
