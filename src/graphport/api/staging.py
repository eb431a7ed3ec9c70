"""Write a target into a temporary folder, and move it into place when it is accepted."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.atomic_write import move, temporary_path
from graphport.core.diagnostics import DiagnosticError, Source, Span
from graphport.core.progress import stage
from graphport.core.regular_files import belonging
from graphport.formats import graph_of
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from graphport.core.diagnostics import Diagnostic
    from graphport.formats import Format
    from graphport.ir.graph import Graph


class Staging:
    """The temporary location of a target: `path` has the target's name in a folder next to the target.

    If the folder cannot be created, the target is written directly.
    """

    def __init__(self, target: Path, path: Path, *, is_beside: bool) -> None:
        self.target = target
        self.path = path
        self.is_beside = is_beside

    def write(self, graph: Graph, kind: Format, options: Mapping[str, Any]) -> list[Diagnostic]:
        """Write a dialect graph; return findings.

        Raises:
            DiagnosticError: errors of the format's writer, located at the target.
        """
        weights = sum(v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None)
        with stage(f"writing {self.target.name}", weights, "bytes", self._bytes_written):
            findings = kind.write(graph, self.path, **options)
        if self.is_beside:
            kind.refuse_path(self.target, self.path)
        return findings

    def _bytes_written(self) -> int:
        """Return the number of bytes written so far, including temporary files."""
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
        """Move all written files to names with the suffix `.failed`; return that of the model."""
        if self.is_beside:
            self._move(".failed")
        return self.target.with_name(self.target.name + ".failed") if self.is_beside else self.target

    def _move(self, ending: str) -> None:
        home = Path(os.path.realpath(self.target))
        goals = [
            (each, home if each == self.path else _sidecar_path(self.target.with_name(each.name), self.target))
            for each in sorted(self.path.parent.iterdir(), key=self._rank)
        ]
        move([(each, goal.with_name(goal.name + ending)) for each, goal in goals])

    def _rank(self, file: Path) -> int:
        """Return the position in the order of the moves: files that refer to others later, the graph last."""
        if file == graph_of(self.path):
            return 4
        if file == self.path:
            return 3
        return {".param": 2, ".py": 1}.get(file.suffix, 0)


def _sidecar_path(beside: Path, graph: Path) -> Path:
    return Path(os.path.realpath(belonging(beside, graph)))


@contextmanager
def stage_target(target: str | Path, kind: Format) -> Generator[Staging]:
    """Yield a temporary location for `target`; files that are not accepted are removed when the block ends.

    Raises:
        DiagnosticError: errors of the block, located at the target.
    """
    goal = kind.model_folder(Path(target))
    home = Path(os.path.realpath(goal))
    folder = temporary_path(home)
    try:
        is_special = home.exists() and not home.is_file() and not home.is_dir()
        if not is_special:
            folder.mkdir()
    except OSError:
        is_special = True
    if is_special:
        # The writer reports why the target cannot be written.
        yield Staging(goal, Path(target), is_beside=False)
        return
    try:
        yield Staging(goal, folder / goal.name, is_beside=True)
    except DiagnosticError as error:
        raise DiagnosticError(*(_relocate(finding, str(folder), goal) for finding in error.diagnostics)) from error
    except OSError as error:
        if str(error.filename or "").startswith(str(folder)):
            error.filename = os.fspath(goal)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _relocate(finding: Diagnostic, folder: str, target: Path) -> Diagnostic:
    """Replace the temporary path in the location of `finding` by the target path."""
    if finding.span is None or not finding.span.file.startswith(folder):
        return finding
    message = finding.message.replace(finding.span.file, str(target))
    return replace(finding, message=message, span=Span(Source(str(target)), place=finding.span.place))
