"""What `graphport ops WORD` tells, held against what words of drawn files of every dialect are read and written as."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import onnx
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.ops import manual, registry
from tests.formats.pnnx import samples
from tests.ops.dialects.com_microsoft import test_binding as microsoft
from tools.emitted import LIFT, LOWER, Recorder, watch

TESTS = Path(__file__).parents[1]
TRACT = json.loads((TESTS / "formats/nnef/tract/words.json").read_text())
LARGEST = 30_000
DRAWN = (*("tflite", "pytorch", "openvino", "nnef", "onnx", "caffe"), *("tract", "pnnx", "com.microsoft", "ncnn"))

# By dialect: how its files are found, how many are drawn, and the ends of the files that they are written as.
FILES = {
    "tflite": ("formats/tflite/cases/*.tflite", 12, ".tflite"),
    "pytorch": ("formats/pt2/programs/*.pt2", 3, ".pnnx.param"),
    "openvino": ("formats/openvino/data/*.xml", 5, ".xml"),
    "nnef": ("conformance/nnef/cases/final/ops/*.nnef", 6, ".nnef"),
    "onnx": ("conformance/prepare/cases/*.onnx", 6, ".onnx"),
    "caffe": ("golden/caffe/[gl]*.prototxt", 2, ".prototxt"),
}
NCNN = """7767517
5 5
Input in 0 1 x 0=8 1=6 2=4
Pooling p 1 1 x a 0=1 1=2 2=2
HardSwish h 1 1 a b 0=0.2 1=0.5
ShuffleChannel s 1 1 b c 0=2
Flatten f 1 1 c y
"""


def drawn(folder, dialect, seed):
    """Some files of a dialect, small ones."""
    draw = random.Random(seed)
    if dialect == "tract":
        for name in draw.sample(sorted(TRACT), 8):
            path = folder / name / "graph.nnef"
            path.parent.mkdir()
            path.write_text(TRACT[name]["text"])
            yield path, ".nnef"
    elif dialect == "pnnx":
        yield from ((samples.unpack(name, folder), ".pnnx.param") for name in draw.sample(samples.names(), 8))
    elif dialect == "com.microsoft":
        for index, case in enumerate(draw.sample(microsoft.CASES, 10)):
            onnx.save(microsoft.modelled(case), folder / f"{index}.onnx")
            yield folder / f"{index}.onnx", ".onnx"
    elif dialect == "ncnn":
        (folder / "net.param").write_text(NCNN)
        (folder / "net.bin").write_bytes(b"")
        yield folder / "net.param", ".param"
    else:
        pattern, count, suffix = FILES[dialect]
        found = [path for path in sorted(TESTS.glob(pattern)) if path.stat().st_size < LARGEST]
        yield from ((path, suffix) for path in draw.sample(found, min(count, len(found))))


def untold(recorder):
    """What rules emit and nobody tells, and what they are told to emit in any case and do not."""
    for (kind, dialect, word), seen in recorder.seen.items():
        told = manual.reading(dialect, word) if kind == LOWER else manual.written_as(dialect, registry.pages()[word])
        if told is None:
            yield kind, dialect, word, "is not told"
            continue
        # What a pattern writes is told as the pattern.
        patterns = kind == LIFT and any("(" in name for name in told.operators)
        more, less = set(seen.some) - set(told.operators), told.always - seen.every
        if (more or less) and not patterns:
            yield kind, dialect, word, sorted(more), sorted(less)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.conformance) for seed in range(1, 20))])
def test_words_are_told_with_all_that_drawn_files_show(tmp_path, monkeypatch, seed):
    recorder = Recorder()
    watch(recorder, monkeypatch.setattr)
    for dialect in DRAWN:
        folder = tmp_path / dialect
        folder.mkdir()
        for index, (path, suffix) in enumerate(drawn(folder, dialect, seed)):
            try:
                gp.save(gp.load(path), folder / f"written{index}" / f"net{suffix}")
            except (DiagnosticError, OSError):
                continue
    seen = Counter(dialect for kind, dialect, _ in recorder.seen if kind == LOWER)
    assert all(seen[dialect] for dialect in (*DRAWN, "expression")), seen
    assert not list(untold(recorder))
