"""Prove pairs of models that differ on purpose and print the verdicts; none may be `verified`.

    .venv/bin/python tools/false_conversions.py [--count N] [--seed N] [--kind KIND] [--to FORMAT] [--out FILE] [FOLDER]

Draws models of the folders (default: tests) in any format, converts each to ONNX, plants a difference
(`planted_differences.py`), writes the result in a format, and proves it against the drawn file. Prints how often each
verdict occurs, and every pair that is `verified`: the difference has no effect on any input, or the proof is wrong.
With `--keep FOLDER` these pairs are saved. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

sys.path.insert(0, str(Path(__file__).parent))

from planted_differences import PLANTS
from true_conversions import ENDINGS, model_files

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("onnx", "onnx", "onnx", "openvino", "tflite", "ncnn", "nnef")
"""Formats of the second file: often ONNX, whose constants and attributes are compared as well."""
MAX_NODES = 400
SILENT = "verified"


def main() -> int:
    """Draw pairs, print the verdicts, and return 1 if a pair is verified."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("tests")], metavar="FOLDER")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=PLANTS, action="append", help="one kind of difference")
    parser.add_argument("--to", dest="target", choices=ENDINGS, help="one format")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    paths = model_files(args.folders)
    found: list[dict[str, Any]] = []
    for number in range(args.count * 20):
        choice = random.Random(f"{args.seed} {number}")  # noqa: S311
        kind = choice.choice(args.kind or list(PLANTS))
        result = prove_pair(choice.choice(paths), kind, args.target or choice.choice(FORMATS), choice, args.keep)
        if result is None:
            continue
        found.append({"number": number, **result})
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(json.dumps(found[-1]) + "\n")
        if len(found) >= args.count:
            break
    print(summary(found))
    return 1 if any(each["verdict"] == SILENT for each in found) else 0


def prove_pair(
    path: Path, kind: str, target: str, choice: random.Random, keep: Path | None = None
) -> dict[str, Any] | None:
    """Plant a difference of a kind in a model and prove the result; `None` if the changed model does not run."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        written = _plant(path, kind, target, choice, place)
        if written is None:
            return None
        file, what = written
        try:
            proof = gp.verify(path, file)
        except DiagnosticError as error:
            verdict, why, never = "refused", error.diagnostics[0].message, []
        else:
            verdict, why, never = str(proof.verdict), proof.sentence, list(proof.coverage.never)
        if keep is not None and verdict in {SILENT, "verified where covered"}:
            shutil.copytree(place, keep / f"{path.stem}-{kind}-{target}-{choice.randrange(10**6)}", dirs_exist_ok=True)
    return {"path": str(path), "kind": kind, "to": target, "what": what, "verdict": verdict, "why": why, "never": never}


def _plant(path: Path, kind: str, target: str, choice: random.Random, place: Path) -> tuple[Path, str] | None:
    """Return the written file with a difference and a description; `None` if there is none."""
    plain, changed = place / "plain.onnx", place / "changed.onnx"
    try:
        if path.suffix == ".onnx":
            plain = path
        else:
            gp.convert(path, plain, verify=False)
        model = onnx.load(str(plain))
        if len(model.graph.node) > MAX_NODES:
            return None
        what = PLANTS[kind](model, choice)
        if what is None:
            return None
        onnx.save(model, str(changed), save_as_external_data=False)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(changed), options)
        if target == "onnx":
            return changed, what
        gp.convert(changed, place / ENDINGS[target], format=target, verify=False)
    except Exception:  # noqa: BLE001  a model that does not run is no pair
        return None
    written = place / ENDINGS[target]
    return (written, what) if written.exists() else None


def summary(found: Sequence[dict[str, Any]]) -> str:
    """Return the counts by verdict and by kind, and the verified pairs."""
    counts = Counter(each["verdict"] for each in found)
    lines = [f"{len(found)} pairs: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())]
    for kind in PLANTS:
        own = Counter(each["verdict"] for each in found if each["kind"] == kind)
        lines.append(f"{kind}: " + ", ".join(f"{n} {verdict}" for verdict, n in own.most_common()))
    lines += [
        f"{SILENT}: {each['path']} to {each['to']}: {each['what']} (number {each['number']})"
        for each in found
        if each["verdict"] == SILENT
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
