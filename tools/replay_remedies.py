"""Replay the remedies of refused conversions: each succeeds or leads to another diagnostic.

    python tools/replay_remedies.py FOLDER…        replay the refusals of all models in some folders
    python tools/replay_remedies.py --seconds 60   stop after 60 seconds; models are drawn at random

The default folder is tests/. The exit code is 1 if a remedy is false.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import graphport as gp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Diagnostic

TARGETS = {
    "onnx": "m.onnx",
    "openvino": "m.xml",
    "tflite": "m.tflite",
    "nnef": "m.nnef.tgz",
    "ncnn": "m.ncnn.param",
    "pnnx": "m.pnnx.param",
    "pt2": "m.pt2",
}
SUFFIXES = {".onnx", ".tflite", ".xml", ".pt2", ".tgz", ".param"}
CUT = re.compile(r"graphport cut MODEL PART --to (\S+)")
INPUT = re.compile(r"--input (\S+?)=([\dx]+)")


def main() -> int:
    """Replay and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folders = options.folders or [Path(__file__).parents[1] / "tests"]
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES]
    random.Random(options.seed).shuffle(paths)  # noqa: S311
    until = time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    for path in paths:
        if time.monotonic() > until:
            break
        for format, kind, message in replay(path):
            counts[f"{kind}: {'false' if message else 'true'}"] += 1
            if message:
                sys.stdout.write(f"{path} to {format}: {message}\n")
        counts["models"] += 1
    sys.stdout.write("".join(f"{name} {count}\n" for name, count in sorted(counts.items())))
    return int(any(name.endswith("false") for name in counts))


def replay(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield format, kind of remedy and error (empty if it works) of each remedy for a model."""
    try:
        model = gp.load(path)
    except Exception:  # noqa: BLE001  tests of readers include invalid files
        return
    for format in TARGETS:
        for finding in _refusals(model, format):
            for kind, again in _remedies(path, model, finding):
                yield format, kind, _fault(finding, format, again)


def _refusals(model: gp.Model, format: str, **options: Any) -> list[Diagnostic]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            gp.save(model, Path(folder) / TARGETS[format], **options)
        except gp.DiagnosticError as error:
            return [each for each in error.diagnostics if each.is_error]
    return []


def _remedies(path: Path, model: gp.Model, finding: Diagnostic) -> Iterator[tuple[str, Any]]:
    text = finding.help or ""
    if found := CUT.search(text):
        names = found[1].rstrip(";,.").split(",")
        yield "cut", lambda: (gp.cut(model, outputs=names), {})
    if found := INPUT.search(text):
        shapes = {found[1]: [int(n) for n in found[2].split("x")]}
        yield "input", lambda: (gp.load(path, shapes=shapes), {})
    if "--flavour tract" in text:
        yield "flavour", lambda: (model, {"flavour": "tract"})


def _fault(finding: Diagnostic, format: str, again: Any) -> str:
    """Return why a remedy is false: it fails or does not change the diagnostic; otherwise an empty string."""
    try:
        model, options = again()
    except gp.DiagnosticError as error:
        return f"{finding.help} -> {error}"
    left = _refusals(model, format, **options)
    same = [each for each in left if each.message == finding.message and each.span == finding.span]
    return f"{finding.message}: {finding.help} -> the same refusal" if same else ""


if __name__ == "__main__":
    sys.exit(main())
