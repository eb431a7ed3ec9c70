"""The state of a folder when a process is killed at each of its file operations."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

_STEPS = frozenset({"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree"})
_DRAWN = re.compile(rb"(\.[0-9]+)?-[0-9a-f]{8}\.part|[0-9a-f]{32}")
"""Random parts of temporary names, which markers contain, and of the markers' own identification."""


def ended_at(step: int, folder: Path, work: Callable[[], object]) -> bool:
    """Do `work` in a process that is ended before its step number `step` below `folder`; whether it came so far."""
    left = [step]

    def before() -> None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

    return _forked(folder, work, before) == 9


def left_at_every_step(folder: Path, work: Callable[[], object], copies: Path) -> list[Path]:
    """Run `work` in a process; return copies of `folder` as of a kill before each operation, and at the end.

    Unflushed data is lost in both cases, and the process has ended before a copy is inspected. Operations without a
    change in between have one copy.
    """
    copies.mkdir()
    seen: list[dict[str, list[bytes]]] = []

    def before() -> None:
        files = contents(folder)
        if not seen or files != seen[-1]:
            shutil.copytree(folder, copies / f"{len(seen):03}", symlinks=True)
            seen.append(files)

    assert _forked(folder, work, before) == 0
    shutil.copytree(folder, copies / "999", symlinks=True)
    return sorted(copies.iterdir())


def bring_back(kept: Path, folder: Path) -> None:
    """Restore the content of `folder` from `kept`, without replacing the folder itself."""
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()
    shutil.copytree(kept, folder, dirs_exist_ok=True)


def contents(folder: Path) -> dict[str, list[bytes]]:
    """Return the content of the files below a folder by name, without random parts of names."""
    found: dict[str, list[bytes]] = {}
    for each in folder.rglob("*"):
        name = _DRAWN.sub(b".part", os.fsencode(each.relative_to(folder))).decode()
        found.setdefault(name, []).append(_DRAWN.sub(b".part", each.read_bytes()) if each.is_file() else b"")
    return {name: sorted(each) for name, each in found.items()}


def _forked(folder: Path, work: Callable[[], object], before: Callable[[], None]) -> int:
    """Return the exit code of a process that runs `work`, and `before` before each of its operations below `folder`."""
    is_open = [True]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_open[0] and event in _STEPS and any(str(folder) in str(each) for each in arguments[:2]):
            is_open[0] = False
            before()
            is_open[0] = True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child does nothing that other threads hold
        process = os.fork()
    if not process:
        code = 1
        try:
            sys.addaudithook(hook)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
