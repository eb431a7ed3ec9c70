"""Layers that look like those that are one for several, and are not: ncnn computes the same of the file before and after."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from graphport.core.diagnostics import Source
from graphport.formats.ncnn import read, write
from graphport.formats.ncnn.container.param import Findings, parse_text
from graphport.formats.ncnn.container.weight_order import weights_of
from graphport.formats.ncnn.graph_passes.layer_fusions import (
    fuse_attention,
    fuse_biases,
    fuse_global_mean,
    fuse_rows,
    fuse_shuffles,
    fuse_squeezes,
)
from graphport.ops.infer import Inference
from tests.every import every
from tests.formats.ncnn.test_layers import run_ncnn

pytest.importorskip("ncnn")

INT8 = 0x000D4B38


def stored(text, random):
    """Weights for all layers of a file."""
    data = b""
    for layer in parse_text(text, Findings(Source("net.param", text))):
        for weight in weights_of(layer.type, layer.parameters):
            if weight.is_tagged and layer.parameters.get("8"):
                codes = random.integers(-100, 100, weight.length).astype(np.int8).tobytes()
                data += struct.pack("<I", INT8) + codes + bytes(-len(codes) % 4)
                continue
            data += struct.pack("<I", 0) if weight.is_tagged else b""
            data += (random.normal(size=weight.length) / 2).astype(np.float32).tobytes()
    return data


def fused(folder, rows, fuse):
    """How often a pass fuses layers of a file, of which ncnn computes the same before and after."""
    random = np.random.default_rng(3)
    blobs = {blob for row in rows for blob in row.split()[4 : 4 + int(row.split()[3]) + int(row.split()[2])]}
    text = "\n".join(["7767517", f"{len(rows)} {len(blobs)}", *rows, ""])
    path, again = folder / "net.param", folder / "again.param"
    path.write_text(text)
    path.with_suffix(".bin").write_bytes(stored(text, random))
    graph, _ = read(path)
    Inference().graph(graph)
    shapes = {value.name: [dim for dim in value.fact.dims[1:] if isinstance(dim, int)] for value in graph.inputs}
    given = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    (name,) = (value.name for value in graph.outputs)
    expected = run_ncnn(path, given, [name])[name]
    count = fuse(graph)
    told = {value.name: value.fact for value in graph.values()}
    Inference().graph(graph)
    assert {value.name: value.fact for value in graph.values()} == told
    write(graph, again)
    found = run_ncnn(again, given, [graph.outputs[0].name])[graph.outputs[0].name]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return count


MATRIX = "Input x 0 1 x 0=6 1=4"
MEMORY = "MemoryData c 0 1 c 0=4 1=1"
SUM = "BinaryOp a 2 1 h c y 0=0"
BIASES = {
    "a sum with numbers": ([MATRIX, MEMORY, "InnerProduct l 1 1 x h 0=4 1=0 2=24", SUM], 1),
    "one that adds already": ([MATRIX, MEMORY, "InnerProduct l 1 1 x h 0=4 1=1 2=24", SUM], 0),
    "one with an activation": ([MATRIX, MEMORY, "InnerProduct l 1 1 x h 0=4 1=0 2=24 9=1", SUM], 0),
    "one of bytes": ([MATRIX, MEMORY, "InnerProduct l 1 1 x h 0=4 1=0 2=24 8=1", SUM], 0),
    "a difference": ([MATRIX, MEMORY, "InnerProduct l 1 1 x h 0=4 1=0 2=24", "BinaryOp a 2 1 h c y 0=1"], 0),
    "a number for each row": (
        [MATRIX, "MemoryData c 0 1 c 0=1 1=4", "InnerProduct l 1 1 x h 0=4 1=0 2=24", SUM],
        0,
    ),
    "a vector, which ncnn takes for rows": (
        [MATRIX, "MemoryData c 0 1 c 0=4", "InnerProduct l 1 1 x h 0=4 1=0 2=24", SUM],
        0,
    ),
    "numbers for a vector": (
        ["Input x 0 1 x 0=6", "MemoryData c 0 1 c 0=4", "InnerProduct l 1 1 x h 0=4 1=0 2=24", SUM],
        1,
    ),
    "one number": ([MATRIX, "MemoryData c 0 1 c 0=1 1=1", "InnerProduct l 1 1 x h 0=4 1=0 2=24", SUM], 0),
    "what is computed": (
        [MATRIX, "Input c 0 1 c 0=4", "InnerProduct l 1 1 x h 0=4 1=0 2=24", SUM],
        0,
    ),
    "what somebody else reads": (
        [
            MATRIX,
            MEMORY,
            "InnerProduct l 1 1 x h0 0=4 1=0 2=24",
            "Split s 1 2 h0 h g",
            SUM,
            "BinaryOp b 2 1 y g z 0=2",
        ],
        0,
    ),
}
CHANNELS = "Input x 0 1 x 0=5 1=4 2=12"
APART, TURNED, JOINED = "Reshape r 1 1 x a 0=5 1=4 11=4 2=3", "Permute p 1 1 a b 0=6", "Reshape q 1 1 b y 0=5 1=4 2=12"
SHUFFLES = {
    "groups": ([CHANNELS, APART, TURNED, JOINED], 1),
    "another order": ([CHANNELS, APART, "Permute p 1 1 a b 0=7", JOINED], 0),
    "another picture": ([CHANNELS, APART, TURNED, "Reshape q 1 1 b y 0=4 1=5 2=12"], 0),
    "rows": ([CHANNELS, APART, TURNED, "Reshape q 1 1 b y 0=20 1=12"], 0),
    "a volume": ([CHANNELS, APART, TURNED, "Reshape q 1 1 b y 0=5 1=4 11=1 2=12"], 0),
    "lengths that are computed": ([CHANNELS, APART, TURNED, 'Reshape q 1 1 b y 0=5 1=4 2=12 6="4,5,12"'], 0),
    "groups that are computed": (
        [CHANNELS, 'Reshape r 1 1 x a 0=5 1=4 11=4 2=3 6="5,4,6,2"', TURNED, JOINED],
        0,
    ),
    "groups that are left": (
        [CHANNELS, "Reshape r 1 1 x a 0=5 1=4 11=1 2=-1", TURNED, "Reshape q 1 1 b y 0=5 1=4 2=-1"],
        0,
    ),
}
ROWS = {
    "rows": ([MATRIX, "InnerProduct l 1 1 x y 0=4 1=1 2=24"], 1),
    "an activation": ([MATRIX, "InnerProduct l 1 1 x y 0=4 1=1 2=24 9=1"], 0),
    "bytes": ([MATRIX, "InnerProduct l 1 1 x y 0=4 1=1 2=24 8=1"], 0),
    "one row": (["Input x 0 1 x 0=6 1=1", "InnerProduct l 1 1 x y 0=4 1=1 2=24"], 0),
    "a vector": (["Input x 0 1 x 0=6", "InnerProduct l 1 1 x y 0=4 1=1 2=24"], 0),
    "a picture": (["Input x 0 1 x 0=2 1=3 2=1", "InnerProduct l 1 1 x y 0=4 1=1 2=24"], 0),
    "a matrix that is one row": (["Input x 0 1 x 0=3 1=2", "InnerProduct l 1 1 x y 0=4 1=1 2=24"], 0),
}
PICTURE, COPIES = "Input x 0 1 x 0=7 1=5 2=6", "Split s 1 2 x u v"
MEAN = "Reduction m 1 1 u m 0=3 1=0 -23303=2,1,2 4=1 5=1"
FIRST, SECOND = "Convolution c 1 1 m h 0=3 1=1 5=1 6=18 9=1", "Convolution d 1 1 h k 0=6 1=1 5=1 6=18 9=4"
WEIGHED = "BinaryOp w 2 1 v k y 0=2"
SQUEEZES = {
    "means": ([PICTURE, COPIES, MEAN, FIRST, SECOND, WEIGHED], 1),
    "extremes": ([PICTURE, COPIES, MEAN.replace("0=3", "0=4"), FIRST, SECOND, WEIGHED], 0),
    "means of rows": ([PICTURE, COPIES, MEAN.replace("2,1,2", "1,2"), FIRST, SECOND, WEIGHED], 0),
    "means times a number": ([PICTURE, COPIES, f"{MEAN} 2=0.5", FIRST, SECOND, WEIGHED], 0),
    "a softmax": (
        [PICTURE, COPIES, MEAN, FIRST, SECOND.replace("h k", "h j"), "Softmax t 1 1 j k 0=0 1=1", WEIGHED],
        0,
    ),
    "windows": (
        [PICTURE, COPIES, MEAN, "Convolution c 1 1 m h 0=3 1=3 4=1 5=1 6=162 9=1", SECOND, WEIGHED],
        0,
    ),
    "what is added around": (
        [PICTURE, COPIES, MEAN, "Convolution c 1 1 m h 0=3 1=1 3=3 4=1 5=1 6=18 9=1", SECOND, WEIGHED],
        0,
    ),
    "a picture as wide as it has channels": (["Input x 0 1 x 0=6 1=5 2=6", COPIES, MEAN, FIRST, SECOND, WEIGHED], 1),
    "one weight for all channels": (
        [PICTURE, COPIES, MEAN, FIRST, "Convolution d 1 1 h k 0=1 1=1 5=1 6=3 9=4", WEIGHED],
        0,
    ),
    "another picture, of one channel": (
        ["Input v 0 1 v 0=7 1=5 2=1", "Input u 0 1 u 0=7 1=5 2=6", MEAN, FIRST, SECOND, WEIGHED],
        0,
    ),
    "one channel": (
        [
            "Input x 0 1 x 0=7 1=5 2=1",
            COPIES,
            MEAN,
            "Convolution c 1 1 m h 0=3 1=1 5=1 6=3 9=1",
            "Convolution d 1 1 h k 0=1 1=1 5=1 6=3 9=4",
            WEIGHED,
        ],
        1,
    ),
    "a sum": ([PICTURE, COPIES, MEAN, FIRST, SECOND, "BinaryOp w 2 1 v k y 0=0"], 0),
    "bytes": ([PICTURE, COPIES, MEAN, "Convolution c 1 1 m h 0=3 1=1 5=1 6=18 8=1", SECOND, WEIGHED], 0),
    "weights that are given": (
        [
            PICTURE,
            "Input g 0 1 g 0=1 1=1 11=6 2=3",
            COPIES,
            MEAN,
            "Convolution c 2 1 m g h 0=3 1=1 5=0 19=1",
            SECOND,
            WEIGHED,
        ],
        0,
    ),
    "activations alone": ([PICTURE, COPIES, MEAN, "Sigmoid c 1 1 m k", WEIGHED], 0),
}

ALONE = "Reduction m 1 1 x m 0=3 1=0 -23303=2,1,2 4=1 5=1"
MEANS = {
    "means": ([PICTURE, ALONE, "Flatten f 1 1 m y"], 1),
    "sums": ([PICTURE, ALONE.replace("0=3", "0=0"), "Flatten f 1 1 m y"], 0),
    "means times a number": ([PICTURE, f"{ALONE} 2=0.5", "Flatten f 1 1 m y"], 0),
    "means of rows": ([PICTURE, ALONE.replace("2,1,2", "1,2"), "Flatten f 1 1 m y"], 0),
    "means of channels": ([PICTURE, ALONE.replace("2,1,2", "1,0"), "Flatten f 1 1 m y"], 0),
    "of volumes": (
        ["Input x 0 1 x 0=7 1=5 11=3 2=6", "Reduction m 1 1 x m 0=3 1=0 -23303=3,1,2,3 4=1 5=1", "Flatten f 1 1 m y"],
        0,
    ),
}


def attention(**changed):
    """Two heads of 4 features, of 4 places each, as layers by name; `changed` ones are others."""
    rows = {"x": "Input x 0 1 x 0=12 1=4", "copies": "Split s 1 3 x xq xk xv"}
    for name, order in zip("qkv", (2, 3, 2), strict=True):
        rows[name] = f"InnerProduct {name} 1 1 x{name} {name}0 0=8 1=1 2=96"
        rows[f"{name}r"] = f"Reshape {name}r 1 1 {name}0 {name}1 0=4 1=2 2=4"
        rows[f"{name}p"] = f"Permute {name}p 1 1 {name}1 {name}2 0={order}"
    rows |= {
        "scaled": "BinaryOp scaled 1 1 q2 q3 0=2 1=1 2=0.5",
        "scores": "MatMul scores 2 1 q3 k2 scores",
        "shares": "Softmax shares 1 1 scores shares 0=2 1=1",
        "mixed": "MatMul mixed 2 1 shares v2 mixed",
        "turned": "Permute turned 1 1 mixed turned 0=2",
        "joined": "Reshape joined 1 1 turned joined 0=8 1=4",
        "last": "InnerProduct last 1 1 joined y 0=12 1=1 2=96",
    }
    return [changed.get(name, row) for name, row in rows.items()]


ATTENTION = {
    "attention": (attention(), 1),
    "another factor": (attention(scaled="BinaryOp scaled 1 1 q2 q3 0=2 1=1 2=0.3"), 1),
    "keys that are turned again": (attention(scores="MatMul scores 2 1 q3 k2 scores 0=1"), 0),
    "values that are turned": (attention(mixed="MatMul mixed 2 1 shares v2 mixed 0=1"), 0),
    "keys as queries are": (attention(kp="Permute kp 1 1 k1 k2 0=2"), 0),
    "queries as keys are": (attention(qp="Permute qp 1 1 q1 q2 0=3"), 0),
    "values as keys are": (attention(vp="Permute vp 1 1 v1 v2 0=3"), 0),
    "shares of another axis": (attention(shares="Softmax shares 1 1 scores shares 0=1 1=1"), 0),
    "a term": (attention(scaled="BinaryOp scaled 1 1 q2 q3 0=0 1=1 2=0.5"), 0),
    "a quotient": (attention(scaled="BinaryOp scaled 1 1 q2 q3 0=3 1=1 2=0.5"), 0),
    "heads that stay apart": (attention(turned="Permute turned 1 1 mixed turned 0=0"), 0),
    "an activation of keys": (attention(k="InnerProduct k 1 1 xk k0 0=8 1=1 2=96 9=1"), 0),
    "an activation at the end": (attention(last="InnerProduct last 1 1 joined y 0=12 1=1 2=96 9=1"), 0),
    "more at the end than at first": (attention(last="InnerProduct last 1 1 joined y 0=10 1=1 2=80"), 0),
    "all places in one": (attention(last="InnerProduct last 1 1 joined y 0=12 1=1 2=384"), 0),
    "values of another size": (
        attention(
            v="InnerProduct v 1 1 xv v0 0=12 1=1 2=144",
            vr="Reshape vr 1 1 v0 v1 0=6 1=2 2=4",
            joined="Reshape joined 1 1 turned joined 0=12 1=4",
            last="InnerProduct last 1 1 joined y 0=12 1=1 2=144",
        ),
        0,
    ),
    "values of another size, in as many columns": (
        attention(
            v="InnerProduct v 1 1 xv v0 0=12 1=1 2=144",
            vr="Reshape vr 1 1 v0 v1 0=6 1=2 2=4",
            joined="Reshape joined 1 1 turned joined 0=8 1=6",
        ),
        0,
    ),
    "products that are computed": (
        ["Input g 0 1 g 0=1", *attention(scaled="BinaryOp scaled 2 1 q2 g q3 0=2 1=0 2=0.5")],
        0,
    ),
    "heads that are computed": (
        attention(**{f"{name}r": f'Reshape {name}r 1 1 {name}0 {name}1 0=4 1=2 2=4 6="2,4,4"' for name in "qkv"}),
        0,
    ),
    "features of two places in one row": (
        attention(
            **{name: f"InnerProduct {name} 1 1 x{name} {name}0 0=16 1=1 2=192" for name in "qkv"},
            **{f"{name}r": f"Reshape {name}r 1 1 {name}0 {name}1 0=4 1=2 2=8" for name in "qkv"},
            joined="Reshape joined 1 1 turned joined 0=8 1=8",
        ),
        0,
    ),
    "one place": (
        attention(
            x="Input x 0 1 x 0=12 1=1",
            **{f"{name}r": f"Reshape {name}r 1 1 {name}0 {name}1 0=4 1=2 2=1" for name in "qkv"},
            joined="Reshape joined 1 1 turned joined 0=8",
        ),
        0,
    ),
    "more heads": (
        attention(**{f"{name}r": f"Reshape {name}r 1 1 {name}0 {name}1 0=2 1=4 2=4" for name in "qkv"}),
        1,
    ),
    "places among heads": (
        attention(**{f"{name}r": f"Reshape {name}r 1 1 {name}0 {name}1 0=4 1=4 2=2" for name in "qkv"}),
        0,
    ),
    "another split of the result": (
        attention(
            joined="Reshape joined 1 1 turned joined 0=4 1=8", last="InnerProduct last 1 1 joined y 0=12 1=1 2=48"
        ),
        0,
    ),
}
CASES = [
    pytest.param(fuse, *case, id=f"{fuse.__name__}: {name}")
    for fuse, cases in (
        (fuse_biases, BIASES),
        (fuse_shuffles, SHUFFLES),
        (fuse_rows, ROWS),
        (fuse_squeezes, SQUEEZES),
        (fuse_global_mean, MEANS),
        (fuse_attention, ATTENTION),
    )
    for name, case in cases.items()
]


@every(("fuse", "rows", "count"), CASES)
def test_only_what_is_the_same_becomes_one_layer(tmp_path, fuse, rows, count):
    assert fused(tmp_path, rows, fuse) == count
