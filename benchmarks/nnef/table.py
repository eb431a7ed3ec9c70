"""Check files written as NNEF in each flavour with the Khronos parser and tract.

python -m benchmarks.nnef.table [--details] [--every N] [documents] [nodes] [FOLDER…]

`documents` are those of documents.py, converted to canonical form; `nodes` the node tests of the `onnx` package with
tensor operands; a folder has `NAME.onnx` and `NAME.npz` with inputs x0, x1, … and outputs y0, y1, …
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from benchmarks.nnef.differences import difference
from benchmarks.nnef.documents import documents
from benchmarks.nnef.readers import Readers

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

TOLERANCE = 1e-3
"""Relative to the larger of the element and 1."""
FLAVOURS = {"both": ("khronos", "tract"), "khronos": ("khronos",), "tract": ("tract",)}
HEADINGS = (
    "models",
    "flavour",
    "written",
    "refused",
    "parsed by nnef",
    "taken by tract",
    "equal in tract",
    "otherwise",
)


class Case(NamedTuple):
    """A model, its inputs and its expected outputs."""

    name: str
    model: gp.Model
    inputs: list[Any]
    outputs: list[Any]


@dataclass(slots=True)
class Score:
    """Results of all models in one flavour."""

    written: int = 0
    parsed: int = 0
    taken: int = 0
    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    details: list[str] = field(default_factory=list[str])
    wrong: int = 0


def of_documents(folder: Path) -> Iterator[Case | str]:
    """Yield the documents as canonical graphs without information about the source text."""
    for document in documents():
        place = folder / "document"
        shutil.rmtree(place, ignore_errors=True)
        document.write(place)
        try:
            read = gp.load(place)
            outputs = list(gp.run(read, document.given(), backend="reference").ordered)
            gp.save(read, folder / "document.onnx")
            model, given = gp.load(folder / "document.onnx"), document.given()
            # State that persists between runs is an input and an output of the ONNX model.
            inputs = [given[name] if name in given else value.storage.numpy() for name, value in _inputs(model)]
            yield Case(document.name, model, inputs, outputs[: len(model.outputs)])
        except DiagnosticError as error:
            yield f"{document.name}: {_reason(error)}"


def _inputs(model: gp.Model) -> list[tuple[str, Any]]:
    return [(value.name, value) for value in model.graph.inputs]


def of_nodes(folder: Path) -> Iterator[Case | str]:
    """Yield ONNX's node tests that have only tensors."""
    from tests.conformance.onnx import nodes

    del folder
    for name in nodes.names():
        case = nodes.cases()[name]
        inputs, outputs = nodes.data(case)[0]
        arrays = [*inputs, *outputs]
        if not inputs or any(
            x is None or isinstance(x, list | dict) or x.dtype.kind not in "fiub" or not x.dtype.isbuiltin
            for x in arrays
        ):
            continue
        try:
            yield Case(name, gp.from_onnx(case.model), inputs, outputs)
        except DiagnosticError as error:
            yield f"{name}: {_reason(error)}"


def of_folder(folder: Path) -> Iterator[Case | str]:
    """Yield models that are stored with inputs and outputs."""
    for path in sorted(folder.glob("*.onnx")):
        with np.load(path.with_suffix(".npz")) as arrays:
            numbered = {
                kind: [arrays[f"{kind}{n}"] for n in range(len(arrays.files)) if f"{kind}{n}" in arrays]
                for kind in "xy"
            }
        try:
            yield Case(path.stem, gp.load(path), numbered["x"], numbered["y"])
        except DiagnosticError as error:
            yield f"{path.stem}: {_reason(error)}"


def _reason(error: DiagnosticError) -> str:
    first = error.diagnostics[0]
    return f"{first.code} {first.message}"


def judge(cases: Iterator[Case | str], folder: Path, readers: Readers) -> dict[str, Score]:
    """Check each case in each flavour."""
    found = {flavour: Score() for flavour in (*FLAVOURS, "unread")}
    for case in cases:
        if isinstance(case, str):
            found["unread"].details.append(case)
            continue
        np.savez(folder / "given.npz", **{f"x{place:03}": array for place, array in enumerate(case.inputs)})
        for flavour, readers_of in FLAVOURS.items():
            _judge(case, flavour, found[flavour], readers_of, folder, readers)
    return found


def _judge(case: Case, flavour: str, score: Score, asked: tuple[str, ...], folder: Path, readers: Readers) -> None:
    place, told = folder / "written", folder / "found.npz"
    shutil.rmtree(place, ignore_errors=True)
    try:
        gp.save(case.model, place, format="nnef", flavour=flavour)
    except DiagnosticError as error:
        kind = re.sub(r"'[^']*'|\(\d+\)|\d+", "…", _reason(error))
        score.refused[kind] += 1
        score.details.append(f"{case.name} [{flavour}]: refused: {_reason(error)}")
        return
    score.written += 1
    if "khronos" in asked:
        answer = readers.ask("khronos", place, folder / "given.npz", told)
        score.parsed += not answer
        score.details += [f"{case.name} [{flavour}]: nnef: {answer}"] if answer else []
    if "tract" not in asked:
        return
    answer = readers.ask("tract", place, folder / "given.npz", told)
    if answer:
        score.details.append(f"{case.name} [{flavour}]: tract: {answer}")
        return
    score.taken += 1
    with np.load(told) as arrays:
        outputs = [arrays[name] for name in arrays.files]
    differs = difference(outputs, case.outputs, TOLERANCE)
    score.equal += not differs
    score.wrong += bool(differs)
    score.details += [f"{case.name} [{flavour}]: tract computes otherwise: {differs}"] if differs else []


def main() -> None:
    """Print the table and the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="which models are refused or not taken, and why")
    parser.add_argument("what", nargs="*", default=["documents", "nodes"])
    options = parser.parse_args()
    readers = Readers()
    rows: list[tuple[str, dict[str, Score]]] = []
    for what in options.what:
        with TemporaryDirectory() as temporary:
            folder = Path(temporary)
            made = {"documents": of_documents, "nodes": of_nodes}.get(what)
            rows.append((what, judge(of_folder(Path(what)) if made is None else made(folder), folder, readers)))
    readers.end()
    sys.stdout.write(f"| {' | '.join(HEADINGS)} |\n|{' --- |' * len(HEADINGS)}\n")
    for what, scores in rows:
        for flavour, asked in FLAVOURS.items():
            each = scores[flavour]
            by_tract = (str(each.taken), str(each.equal), str(each.wrong)) if "tract" in asked else ("", "", "")
            parsed = str(each.parsed) if "khronos" in asked else ""
            counts = (each.written, sum(each.refused.values()), parsed, *by_tract)
            sys.stdout.write(f"| {Path(what).name} | {flavour} | {' | '.join(map(str, counts))} |\n")
    for what, scores in rows if options.details else ():
        for flavour, each in scores.items():
            sys.stdout.writelines(
                f"{Path(what).name} {flavour}: {count} × {kind}\n" for kind, count in each.refused.most_common()
            )
            sys.stdout.writelines(f"{detail}\n" for detail in each.details)


if __name__ == "__main__":
    main()
