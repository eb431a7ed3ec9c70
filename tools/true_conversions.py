"""Prove random conversions between all formats and print the verdicts; none may be refuted.

    .venv/bin/python tools/true_conversions.py [--count N] [--seed N] [--from TEXT] [--to FORMAT] [--out FILE] [FOLDER]

Draws models of the folders (default: tests) and converts each to a format, with the proof of `graphport convert`: every
pair of formats in turn. Unreadable models and operators that the target does not support are not counted. Prints how
often each verdict occurs, and every refuted conversion; exit code 1 if there is one. With `--out` each result is
appended to a file of JSON lines, and conversions with a result in that file are not repeated.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import graphport as gp
from graphport import formats
from graphport.core.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENDINGS = {
    "onnx": "net.onnx",
    "openvino": "net.xml",
    "ncnn": "net.ncnn.param",
    "tflite": "net.tflite",
    "nnef": "net.nnef.tgz",
    "pnnx": "net.pnnx.param",
    "caffe": "net.prototxt",
}
"""Formats of the written files, and the file name of each."""
MAX_BYTES = 1 << 25
"""Maximum size of a file to convert."""
LEFT_OUT = re.compile(r"/(fuzzed|hostile|__pycache__|lexical|syntax|core_aten|words|golden|invalid)/")
"""Folders of files that are not models."""
FAILED = "verification failed"


def main() -> int:
    """Draw conversions, print the verdicts, and return 1 if one is refuted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("tests")], metavar="FOLDER")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="only", default="", metavar="TEXT", help="paths that contain it")
    parser.add_argument("--to", dest="target", choices=ENDINGS, help="one format")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl")
    args = parser.parse_args()
    done = _kept(args.out)
    paths = [path for path in model_files(args.folders) if args.only in str(path)]
    found: list[dict[str, Any]] = []
    for path, target in draw(paths, args.seed, [args.target] if args.target else list(ENDINGS)):
        result = done.get((str(path), target))
        if result is None:
            result = convert(path, target)
            if args.out is not None:
                with args.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
        if result["verdict"] is not None:
            found.append(result)
        if len(found) >= args.count:
            break
    print(summary(found))
    return 1 if any(each["verdict"] == FAILED for each in found) else 0


def model_files(folders: Sequence[Path]) -> list[Path]:
    """Return the files and folders that a format recognizes, except mutated ones."""
    found: list[Path] = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if LEFT_OUT.search(f"/{path.as_posix()}/") or any(parent in found for parent in path.parents):
                continue
            if path.is_file() and path.stat().st_size > MAX_BYTES:
                continue
            if path.suffix not in {".py", ".npz", ".json", ".md", ".txt", ".bin"} and _format_of(path) is not None:
                found.append(path)
    return found


def _format_of(path: Path) -> str | None:
    try:
        return formats.recognize(path).name
    except (DiagnosticError, OSError, ValueError):
        return None


def draw(paths: Sequence[Path], seed: int, targets: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield files and target formats: each pair of formats in turn, in random order."""
    choice = random.Random(seed)  # noqa: S311
    by_format: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        by_format[_format_of(path) or ""].append(path)
    queues = [
        (target, choice.sample(files, len(files))) for _, files in sorted(by_format.items()) for target in targets
    ]
    while queues:
        for target, files in queues:
            yield files.pop(), target
        queues = [(target, files) for target, files in queues if files]


def convert(path: Path, target: str) -> dict[str, Any]:
    """Convert a model and prove the result. The verdict is `None` if there is nothing to prove."""
    result: dict[str, Any] = {"path": str(path), "from": _format_of(path), "to": target, "verdict": None, "why": ""}
    with tempfile.TemporaryDirectory() as folder:
        try:
            report = gp.convert(path, Path(folder) / ENDINGS[target], format=target)
        except DiagnosticError as error:
            return {**result, "why": error.diagnostics[0].message}
        except Exception as error:  # noqa: BLE001  an internal error is a finding as well
            return {**result, "verdict": FAILED, "why": f"{type(error).__name__}: {error}"}
    proof = report.proof
    if proof is None:
        return {**result, "why": ", ".join(report.unsupported)}
    return {**result, "verdict": str(proof.verdict), "why": proof.sentence, "never": list(proof.coverage.never)}


def _kept(path: Path | None) -> dict[tuple[str, str], dict[str, Any]]:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["path"], row["to"]): row for row in rows}


def summary(found: Sequence[dict[str, Any]]) -> str:
    """Return the counts by verdict and the failed and unverified conversions."""
    counts = Counter(each["verdict"] for each in found)
    lines = [f"{len(found)} conversions: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())]
    for verdict in (FAILED, "not verified"):
        lines += [f"{verdict}: {x['path']} to {x['to']}: {x['why']}" for x in found if x["verdict"] == verdict]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
