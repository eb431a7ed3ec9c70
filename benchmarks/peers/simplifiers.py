"""Compare simplifiers on exported files: number of nodes, and time."""

from __future__ import annotations

import resource
import statistics
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.simplify.judging import count_nodes, session, two_sizes
from benchmarks.simplify.table import OURS, PEERS, Result, worked
from onnx import load

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPORTS = Path(__file__).parent.parent.parent / "tests" / "world" / "torch.zip"
_ADDRESSES = 8 << 30
"""Address space limit in bytes of a tool and of the runs that check it."""
LARGE = 300
"""Number of nodes above which the processor time of the work is reported, not that of the process with imports."""


def compared(models: Path | None, folder: Path) -> str:
    """Return the tables of all models of a folder, or of the files of PyTorch's two exporters in the tests."""
    # Sizes are tried in descending order: models with caches would allocate all memory.
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if models is None:
        models = folder / "exports"
        with zipfile.ZipFile(EXPORTS) as archive:
            archive.extractall(models)
    found: dict[str, tuple[int, dict[str, Result]]] = {}
    for path in sorted(models.rglob("*.onnx")):
        result = _of(path)
        if result is not None:
            found[path.stem] = result
    return _verdicts(found) + "\n" + _worse(found) + "\n" + _seconds(found)


def _of(path: Path) -> tuple[int, dict[str, Result]] | None:
    """Return the number of nodes of a model and the result of each tool; `None` if no accepted inputs were found."""
    try:
        feeds = two_sizes(path)
        expected = [session(path).run(None, feed) for feed in feeds]
    except Exception as error:  # noqa: BLE001  any exception: ONNX Runtime does not run the original
        sys.stderr.write(f"{path.name}: {str(error).splitlines()[0][:120]}\n")
        return None
    if not feeds:
        return None
    results = {tool: worked(tool, sys.executable, path, feeds, expected) for tool in (OURS, *PEERS)}
    counts = {tool: each.verdict.nodes for tool, each in results.items() if each.is_valid and each.verdict is not None}
    sys.stderr.write(f"{path.name}: {counts}\n")
    return count_nodes(load(str(path), load_external_data=False).graph), results


def _nodes(result: Result) -> int | None:
    return result.verdict.nodes if result.is_valid and result.verdict is not None else None


def _verdicts(found: dict[str, tuple[int, dict[str, Result]]]) -> str:
    counts: dict[str, Counter[str]] = {tool: Counter() for tool in (OURS, *PEERS)}
    sums: Counter[str] = Counter()
    for before, results in found.values():
        nodes = {tool: _nodes(result) for tool, result in results.items()}
        for tool, own in nodes.items():
            others = [each for peer, each in nodes.items() if peer != tool and each is not None]
            best = min(others, default=None)
            verdict = "not valid" if own is None else "equal" if best is None or own == best else "better"
            counts[tool]["worse" if own is not None and best is not None and own > best else verdict] += 1
            sums[tool] += before if own is None else own
    rows = [
        [tool, *(str(counts[tool][verdict]) for verdict in ("better", "equal", "worse", "not valid")), str(sums[tool])]
        for tool in counts
    ]
    head = (
        f"{len(found)} files, {sum(before for before, _ in found.values())} nodes. Each tool beside the best of the others whose result "
        "loads, is right at two sizes, and is at most 1.2 times as large.\n\n"
    )
    return head + _table(("tool", "fewer nodes", "as many", "more", "not valid", "nodes left"), rows)


def _worse(found: dict[str, tuple[int, dict[str, Result]]]) -> str:
    rows: list[list[str]] = []
    for name, (before, results) in found.items():
        nodes = {tool: _nodes(result) for tool, result in results.items()}
        own, others = nodes[OURS], {tool: n for tool, n in nodes.items() if tool != OURS and n is not None}
        best = min(others.values(), default=None)
        if own is None or (best is not None and own > best):
            others_ = ", ".join(f"{tool} {n}" for tool, n in others.items())
            rows.append([name, str(before), "not valid" if own is None else str(own), others_])
    if not rows:
        return "On no file has another valid result fewer nodes than ours.\n"
    return "Where another one has fewer nodes, or ours is not valid:\n\n" + _table(
        ("file", "before", "graphport", "others"), rows
    )


def _seconds(found: dict[str, tuple[int, dict[str, Result]]]) -> str:
    rows: list[list[str]] = []
    for title, is_large in ((f"above {LARGE} nodes", True), ("others", False)):
        results = [each for before, each in found.values() if (before > LARGE) is is_large]
        for tool in (OURS, *PEERS) if results else ():
            valid = [each[tool] for each in results if each[tool].is_valid]
            if valid:
                work, whole = ([each.cpu for each in valid], [each.whole for each in valid])
                peaks = max(each.peak for each in valid)
                rows.append([title, tool, str(len(valid)), _spread(work), _spread(whole), f"{peaks:.0f}"])
    headings = ("files", "tool", "valid", "work, CPU s", "whole process, CPU s", "peak MB")
    return "Median (least to most):\n\n" + _table(headings, rows)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    every = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)
