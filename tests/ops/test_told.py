"""Compare the output of `graphport ops OP_TYPE` with the rules that run on drawn files of every dialect."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import operator_manual, registry
from tests.formats.onnx.rules.com_microsoft import test_binding as microsoft
from tests.formats.pnnx import samples
from tools.emitted import LIFT, LOWER, Recorder, watch

TESTS = Path(__file__).parents[1]
TRACT = json.loads((TESTS / "formats/nnef/tract/words.json").read_text())
LARGEST = 30_000
DRAWN = (*("tflite", "pytorch", "openvino", "nnef", "onnx", "caffe"), *("tract", "pnnx", "com.microsoft", "ncnn"))

# By dialect: pattern of its files, number of drawn files, and suffixes of the written files.
FILES = {
    "tflite": ("formats/tflite/cases/*.tflite", 12, ".tflite"),
    "pytorch": ("formats/pytorch/pt2/programs/*.pt2", 3, ".pnnx.param"),
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

TRACT_HEAD = "version 1.0;\nextension tract_registry tract_core;\ngraph g({}) -> (y)\n{{\n{}\n}}\n"
HALVES = (0x01306B47).to_bytes(4, "little") + np.arange(8, dtype=np.float16).tobytes()
TRANSPOSED = """7767517
3 2
pnnx.Input in 0 1 x #x=(1,3,2)f32
nn.ConvTranspose2d c 1 1 x y bias=True dilation=(1,1) groups=1 in_channels=1 kernel_size=(3,3) out_channels=1 \
output_padding=(3,3) padding=(1,1) stride=(3,3) @bias=(1)f32 @weight=(1,1,3,3)f32
pnnx.Output out 1 0 y
"""


def packed(**counts):
    """Weights of zeros as PNNX stores them, `c_bias` being the bias of c."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, count in counts.items():
                archive.writestr(name.replace("_", "."), np.zeros(count, np.float32).tobytes())
        return file.getvalue()


def external(name, shape, dtype):
    """Return an input in tract's syntax."""
    return f"    {name} = tract_core_external(shape = {shape}, datum_type = '{dtype}');"


def bound(name, *lines):
    """A graph of tract's of x and another input."""
    return TRACT_HEAD.format(f"x, {name}", "\n".join([external("x", [4, 6], "f32"), *lines]))


# Rare inputs: other element types, values known only at run time, missing axes, symbolic dims.
CORNERS = {
    "tract": [
        {
            "graph.nnef": bound(
                "n", external("n", [], "i64"), "    y = slice(x, axes = [1], begin = [n], end = [n + 2]);"
            )
        },
        {
            "graph.nnef": bound(
                "n", external("n", [2], "i32"), "    y = slice(x, axes = [0, 1], begin = n, end = [3, 5]);"
            )
        },
        {"graph.nnef": bound("c", external("c", [4], "i64"), "    y = select(c, x, tract_core_cast(c, to = 'f16'));")},
    ],
    "ncnn": [
        {
            "net.param": "7767517\n3 3\nInput in 0 1 x 0=8 1=6 2=4\nMemoryData m 0 1 w 0=8 21=0\nBinaryOp a 2 1 x w y 0=0\n",
            "net.bin": HALVES,
        },
        {"net.param": "7767517\n2 2\nInput in 0 1 x\nShuffleChannel s 1 1 x y 0=2\n", "net.bin": b""},
    ],
    "pnnx": [{"net.pnnx.param": TRANSPOSED.replace("\\\n", ""), "net.pnnx.bin": packed(c_bias=1, c_weight=9)}],
    "tflite": [{"repeats.tflite": (TESTS / "formats/tflite/cases/repeats.tflite").read_bytes()}],
}
OPEN = {("ncnn", 1): {"x": [1, 4, "H", "W"]}}


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
    """Yield op types that rules emit without documentation, and op types documented as always emitted that are not."""
    for (kind, dialect, op_type), seen in recorder.seen.items():
        told = (
            operator_manual.reading(dialect, op_type)
            if kind == LOWER
            else operator_manual.export_op_types(dialect, registry.op_defs()[op_type])
        )
        if told is None:
            yield kind, dialect, op_type, "is not told"
            continue
        # The documentation of a pattern is the pattern itself.
        patterns = kind == LIFT and any("(" in name for name in told.operators)
        more, less = set(seen.some) - set(told.operators), told.always - seen.every
        if (more or less) and not patterns:
            yield kind, dialect, op_type, sorted(more), sorted(less)


@pytest.mark.parametrize("dialect", sorted(registry.names()))
def test_every_op_type_is_reported(dialect):
    found = {op_type: operator_manual.reading(dialect, op_type) for op_type in operator_manual.reads(dialect)}
    assert not [op_type for op_type, told in found.items() if not (told and told.is_import_known)]


def test_an_op_type_that_is_always_refused_is_reported_with_the_reason():
    told = operator_manual.reading("pnnx", "prim::Loop")
    assert told.refused.endswith("pnnx does not write them")
    assert not told.operators


def test_op_types_listed_as_refused_are_rejected():
    refused = [
        (dialect, op_type)
        for dialect in registry.names()
        for op_type, told in operator_manual.reads(dialect).items()
        if told.refused
    ]
    assert ("pytorch", "aten.linalg_svd") in refused
    for dialect, op_type in refused:
        graph = Graph()
        x = graph.add_input("x", TensorFact(DType.FLOAT32, (3, 3)))
        graph.set_outputs(graph.append(Node(op_type, [x], [Value("y")], dialect=dialect)).results)
        read, findings = legalize(graph)
        assert [node.op_type for node in read] == [op_type]
        assert operator_manual.reading(dialect, op_type).refused in findings[0].message


@pytest.mark.parametrize("dialect", CORNERS)
def test_emissions_of_corner_case_files_are_recorded(tmp_path, monkeypatch, dialect):
    recorder = Recorder()
    watch(recorder, monkeypatch.setattr)
    for index, files in enumerate(CORNERS[dialect]):
        folder = tmp_path / str(index)
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        shapes = OPEN.get((dialect, index))
        gp.save(gp.load(folder / next(iter(files)), shapes=shapes), folder / "net.onnx")
    assert [kind for kind, *_ in recorder.seen if kind == LOWER]
    assert not list(untold(recorder))


def test_while_emissions_exclude_its_body():
    told = operator_manual.reading("tflite", "WHILE")
    assert told.always == {"Loop"}
    assert not {"Greater", "Mul", "Sub"} & set(told.operators)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.conformance) for seed in range(1, 20))])
def test_emissions_of_random_files_are_recorded(tmp_path, monkeypatch, seed):
    recorder = Recorder()
    watch(recorder, monkeypatch.setattr)
    for dialect in DRAWN:
        folder = tmp_path / dialect
        folder.mkdir()
        for index, (path, suffix) in enumerate(drawn(folder, dialect, seed)):
            target = folder / f"written{index}" / f"net{suffix}"
            target.parent.mkdir()
            try:
                gp.save(gp.load(path), target)
            except (DiagnosticError, OSError):
                continue
    seen = Counter(dialect for kind, dialect, _ in recorder.seen if kind == LOWER)
    assert all(seen[dialect] for dialect in (*DRAWN, "expression")), seen
    assert not list(untold(recorder))
