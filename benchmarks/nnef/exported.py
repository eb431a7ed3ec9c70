"""Check files of torch_to_nnef and tract: reading, running, converting to ONNX, and writing again for tract.

python -m benchmarks.nnef.exported FOLDER [--details] [--only TEXT]

`FOLDER/manifest.json` has `read`: for each file its `file`, `data` (an .npz of inputs x0, x1, … and of expected
outputs, y0, … or t0, … according to `expected`; ox0, oy0 at another size), `tolerance`, and optionally `clear`: whether
the file must be read; by default those that tract computes correctly. Other files may be refused, but must not crash.
`write` lists models to write as NNEF, for both readers and in each flavour.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.nnef.differences import difference
from benchmarks.nnef.readers import Readers

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

VERDICTS = ("right", "wrong", "refused", "rejected", "crashed")
LEAST = 1e-3
"""Tolerance for results of another runtime on a written file, relative to the larger of the element and 1."""
Arrays = list[Any]


class Judge:
    """Counts verdicts by step, and collects the failures."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work, self.readers = folder, work, Readers()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.details: list[str] = []

    def step(self, name: str, case: str, what: Callable[[], str]) -> None:
        """Run one step of a case; `what` returns its failure, with the prefix `rejected:` for that of another reader."""
        try:
            found = what()
            verdict = "right" if not found else "rejected" if found.startswith("rejected:") else "wrong"
        except DiagnosticError as error:
            found, verdict = "; ".join(f"{each.code} {each.message}" for each in error.diagnostics[:2]), "refused"
        except Exception as error:  # noqa: BLE001  a crash is a verdict
            found, verdict = f"{type(error).__name__}: {error}", "crashed"
        self.counts[name][verdict] += 1
        if found:
            self.details.append(f"{name}: {case}: {verdict}: {found[:300]}")

    def by_tract(self, place: Path, runs: Iterator[tuple[Arrays, Arrays]], tolerance: float) -> str:
        """Return the failure of tract on a folder; empty if its results are right."""
        for given, right in runs:
            np.savez(self.work / "given.npz", **{f"x{place:03}": array for place, array in enumerate(given)})
            answer = self.readers.ask("tract", place, self.work / "given.npz", self.work / "found.npz")
            if answer:
                return f"rejected: {answer}"
            with np.load(self.work / "found.npz") as arrays:
                found = difference([arrays[name] for name in arrays.files], right, tolerance)
            if found:
                return found
        return ""

    def parsed(self, place: Path) -> str:
        """Return the error of the Khronos parser for a folder."""
        answer = self.readers.ask("khronos", place, self.work / "given.npz", self.work / "found.npz")
        return f"rejected: {answer}" if answer else ""

    def place(self, name: str) -> Path:
        """Return a path to write to that does not exist."""
        place = self.work / name
        shutil.rmtree(place, ignore_errors=True)
        return place

    def read(self, case: dict[str, Any]) -> None:
        """Check a file of the manifest: read and run it, convert it to ONNX, and write it for tract."""
        name, tolerance = case["id"], max(case["tolerance"], LEAST)
        is_clear = self._is_clear(case)
        kind = "read" if is_clear else "not clear, read"
        models: list[gp.Model] = []

        def reading() -> str:
            models.append(gp.load(self.folder / case["file"]))
            return self._ran(models[0], case, case["tolerance"], "auto")

        self.step(kind, name, reading)
        if not models or not is_clear:
            return
        place = self.place("model.onnx")

        def through_onnx() -> str:
            gp.save(models[0], place)
            return self._ran(gp.load(place), case, tolerance, "onnxruntime")

        def back() -> str:
            again = self.place("again")
            gp.save(gp.load(place), again, format="nnef", flavour="tract")
            return self.by_tract(again, self._runs(case), tolerance)

        def written() -> str:
            again = self.place("written")
            gp.save(models[0], again, format="nnef", flavour="tract")
            return self.by_tract(again, self._runs(case), tolerance)

        self.step("to ONNX", name, through_onnx)
        if place.exists():
            self.step("from ONNX to tract", name, back)
        self.step("written to tract", name, written)

    def write(self, case: dict[str, Any]) -> None:
        """Write a model in each flavour and check it with the readers of the flavour."""
        name, tolerance = case["id"], max(case["tolerance"], LEAST)
        model = gp.load(self.folder / case["file"])
        runs = list(self._ordered(case, model))
        for flavour in ("both", "tract", "khronos"):

            def written(flavour: str = flavour) -> str:
                place = self.place("written")
                gp.save(model, place, format="nnef", flavour=flavour)
                answer = "" if flavour == "tract" else self.parsed(place)
                return answer or ("" if flavour == "khronos" else self.by_tract(place, iter(runs), tolerance))

            self.step(f"write, {flavour}", name, written)

    def _is_clear(self, case: dict[str, Any]) -> bool:
        if "clear" in case:
            return bool(case["clear"])
        found = self.by_tract(self.folder / case["file"], self._runs(case), max(case["tolerance"], LEAST))
        self.step("tract itself", case["id"], lambda: found)
        return not found

    def _ordered(self, case: dict[str, Any], model: gp.Model) -> Iterator[tuple[Arrays, Arrays]]:
        for given, right in self._runs(case):
            names, outputs = case.get("inputs"), case.get("outputs")
            inputs = [given[names.index(name)] for name in model.inputs] if names else given
            yield inputs, [right[outputs.index(name)] for name in model.outputs] if outputs else right

    def _runs(self, case: dict[str, Any]) -> Iterator[tuple[Arrays, Arrays]]:
        expected = case.get("expected", "y")
        with np.load(self.folder / case["data"]) as stored:
            data = dict(stored)
        for prefix in ("", "o"):
            given, right = _series(data, f"{prefix}x"), _series(data, prefix + expected)
            if given and right:
                yield given, right

    def _ran(self, model: gp.Model, case: dict[str, Any], tolerance: float, backend: str) -> str:
        for given, right in self._runs(case):
            run = gp.run(model, dict(zip(model.inputs, given, strict=True)), backend=backend)
            found = difference(list(run.ordered), right, tolerance)
            if found:
                return found
        return ""


def _series(data: dict[str, Any], prefix: str) -> Arrays:
    return [data[f"{prefix}{place}"] for place in range(len(data)) if f"{prefix}{place}" in data]


def main() -> None:
    """Print the table, and with `--details` the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--details", action="store_true", help="what is not right, and why")
    parser.add_argument("--only", default="", help="only what has this in its name")
    options = parser.parse_args()
    manifest = json.loads((options.folder / "manifest.json").read_text())
    with TemporaryDirectory() as temporary:
        judge = Judge(options.folder, Path(temporary))
        for kind, work in (("read", judge.read), ("write", judge.write)):
            for case in manifest.get(kind, []):
                if options.only in case["id"]:
                    work(case)
        judge.readers.end()
    sys.stdout.write(f"| step | {' | '.join(VERDICTS)} |\n|{' --- |' * (len(VERDICTS) + 1)}\n")
    for step, counts in judge.counts.items():
        sys.stdout.write(f"| {step} | {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |\n")
    if options.details:
        sys.stdout.writelines(f"{detail}\n" for detail in judge.details)


if __name__ == "__main__":
    main()
