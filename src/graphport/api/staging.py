"""A target that is written beside its place, judged there, and moved there when it has passed."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import DiagnosticError, Source, Span
from graphport.core.opening import belonging
from graphport.core.progress import stage
from graphport.core.replacing import beside_of, move
from graphport.formats import graph_of
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from graphport.core.diagnostics import Diagnostic
    from graphport.formats import Format
    from graphport.ir.graph import Graph


class Place:
    """Where a target is written: `path` is called like it and stands in a folder of its own beside it.

    Where no folder can be made it is written where it is to be.
    """

    def __init__(self, target: Path, path: Path, *, is_beside: bool) -> None:
        self.target = target
        self.path = path
        self.is_beside = is_beside

    def write(self, graph: Graph, kind: Format, options: Mapping[str, Any]) -> list[Diagnostic]:
        """Write a graph in the words of a format; return what there is to say of it.

        Raises:
            DiagnosticError: what the format's writer raises at the target.
        """
        weights = sum(v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None)
        with stage(f"writing {self.target.name}", weights, "bytes", self._written):
            findings = kind.write(graph, self.path, **options)
        if self.is_beside:
            kind.refuse_path(self.target, self.path)
        return findings

    def _written(self) -> int:
        """Bytes that are there already, also under names that they have while they are written."""
        home = self.path.parent if self.is_beside else self.path
        try:
            return sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
        except OSError:
            return 0  # a file was renamed meanwhile

    def settle(self, *, has_failed: bool, keep_failed: bool) -> str | None:
        """Accept what did not fail; the file that there is now, if any."""
        if not has_failed:
            self.accept()
            return str(self.target)
        return str(self.keep()) if keep_failed else None

    def accept(self) -> None:
        """Move all that was written to the target, the model itself last."""
        if self.is_beside:
            self._move("")

    def keep(self) -> Path:
        """Move all that was written to names that say that it failed; that of the model."""
        if self.is_beside:
            self._move(".failed")
        return self.target.with_name(self.target.name + ".failed") if self.is_beside else self.target

    def _move(self, ending: str) -> None:
        home = Path(os.path.realpath(self.target))
        goals = [
            (each, home if each == self.path else _belonging(self.target.with_name(each.name), self.target))
            for each in sorted(self.path.parent.iterdir(), key=self._rank)
        ]
        move([(each, goal.with_name(goal.name + ending)) for each, goal in goals])

    def _rank(self, file: Path) -> int:
        """Position in the order of the moves: what refers to other files comes after them, the graph last."""
        if file == graph_of(self.path):
            return 4
        if file == self.path:
            return 3
        return {".param": 2, ".py": 1}.get(file.suffix, 0)


def _belonging(beside: Path, graph: Path) -> Path:
    return Path(os.path.realpath(belonging(beside, graph)))


@contextmanager
def staged(target: str | Path, kind: Format) -> Generator[Place]:
    """A place for `target`, which is written in a format; what is not accepted when the block ends is gone.

    Raises:
        DiagnosticError: what the block raises, told of the target.
    """
    goal = kind.home(Path(target))
    home = Path(os.path.realpath(goal))
    folder = beside_of(home)
    try:
        is_special = home.exists() and not home.is_file() and not home.is_dir()
        if not is_special:
            folder.mkdir()
    except OSError:
        is_special = True
    if is_special:
        # Whoever writes says why it cannot be done.
        yield Place(goal, Path(target), is_beside=False)
        return
    try:
        yield Place(goal, folder / goal.name, is_beside=True)
    except DiagnosticError as error:
        raise DiagnosticError(*(_moved(finding, str(folder), goal) for finding in error.diagnostics)) from error
    except OSError as error:
        if str(error.filename or "").startswith(str(folder)):
            error.filename = os.fspath(goal)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _moved(finding: Diagnostic, folder: str, target: Path) -> Diagnostic:
    """`finding` at `target`, where it is at a file in `folder`."""
    if finding.span is None or not finding.span.file.startswith(folder):
        return finding
    return replace(finding, span=Span(Source(str(target)), place=finding.span.place))
