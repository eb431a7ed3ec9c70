"""What a process leaves in a folder when it is ended, at each of its steps there."""

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
    """Do `work` in a process; copies of `folder` as it would be left if that were ended, at all steps, and as it is left.

    What is not flushed yet is lost in both cases, and the process is no more when they are looked at. Steps between which
    nothing changed have one copy.
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
    """Have `folder`, which stays the same one, hold what `kept` does."""
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()
    shutil.copytree(kept, folder, dirs_exist_ok=True)


def contents(folder: Path) -> dict[str, list[bytes]]:
    """What is in the files below a folder, by their names without what is drawn."""
    found: dict[str, list[bytes]] = {}
    for each in folder.rglob("*"):
        name = _DRAWN.sub(b".part", os.fsencode(each.relative_to(folder))).decode()
        found.setdefault(name, []).append(_DRAWN.sub(b".part", each.read_bytes()) if each.is_file() else b"")
    return {name: sorted(each) for name, each in found.items()}


def _forked(folder: Path, work: Callable[[], object], before: Callable[[], None]) -> int:
    """Exit code of a process that does `work`, and `before` before each of its steps below `folder`."""
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
