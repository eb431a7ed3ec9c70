"""What ncnn has no layer for, and other layers compute: its own runtime on the written file, and the file read again."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.models import model, node, typed, write_onnx

pytest.importorskip("ncnn")

RANDOM = np.random.default_rng(5)
INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def written(tmp_path, nodes, inputs, outputs, constants=None, opset=20):
    """The text of the file; what it computes in ncnn was compared, and what it is when it is read again."""
    proto = model(nodes, inputs, outputs, constants or {}, opset=opset)
    source = gp.load(write_onnx(tmp_path / "net.onnx", proto))
    report = gp.convert(tmp_path / "net.onnx", tmp_path / "net.ncnn.param")
    assert report.passed, [finding.message for finding in report.findings]
    assert any(each.runtime == "ncnn" and each.ran for each in report.proof.witnesses)
    back = gp.load(tmp_path / "net.ncnn.param")
    assert [(v.fact.dtype, v.fact.shape) for v in back.outputs.values()] == [
        (v.fact.dtype, v.fact.shape) for v in source.outputs.values()
    ]
    return (tmp_path / "net.ncnn.param").read_text()


def each(op, count, *more, **attributes):
    return [node(op, [*more], [f"y{place}"], **attributes) for place in range(count)]


X = [("x", [1, 5, 4])]
CASES = {
    "places of extremes": (
        [
            node("ArgMax", ["x"], ["a"], axis=2),
            node("ArgMax", ["x"], ["b"], axis=1, keepdims=0, select_last_index=1),
            node("ArgMin", ["x"], ["c"], axis=-1, keepdims=0),
            node("Hardmax", ["x"], ["d"], axis=1),
        ],
        X,
        [typed("a", [1, 5, 1], INT), typed("b", [1, 4], INT), typed("c", [1, 5], INT), ("d", [1, 5, 4])],
        {},
    ),
    "the largest and the smallest": (
        [
            node("TopK", ["x", "k"], ["v", "i"], axis=1),
            node("TopK", ["x", "k"], ["w", "j"], axis=-1, largest=0),
            node("Mod", ["i", "two"], ["m"]),
            node("Div", ["j", "two"], ["d"]),
        ],
        X,
        [
            ("v", [1, 3, 4]),
            ("w", [1, 5, 3]),
            typed("i", [1, 3, 4], INT),
            typed("m", [1, 3, 4], INT),
            typed("d", [1, 5, 3], INT),
        ],
        {"k": ints(3), "two": ints(2)},
    ),
    "rows by places that are computed": (
        [
            node("ArgMin", ["x"], ["i"], axis=2, keepdims=0),
            node("Gather", ["table", "i"], ["a"]),
            node("ArgMax", ["x"], ["j"], axis=2),
            node("GatherElements", ["x", "j"], ["b"], axis=2),
            node("ScatterElements", ["x", "j", "b2"], ["c"], axis=2),
            node("Neg", ["b"], ["b2"]),
            node("OneHot", ["i", "depth", "ends"], ["d"]),
        ],
        X,
        [("a", [1, 5, 3]), ("b", [1, 5, 1]), ("c", [1, 5, 4]), ("d", [1, 5, 6])],
        {"table": numbers(4, 3), "depth": ints(6), "ends": np.array([-1, 2], np.float32)},
    ),
    "places that are given": (
        [
            node("Cast", ["m"], ["f"], to=TensorProto.FLOAT),
            node("Greater", ["m", "one"], ["g"]),
            node("Where", ["g", "f", "half"], ["a"]),
            node("Cast", ["m"], ["t"], to=BOOL),
            node("Not", ["t"], ["b"]),
            node("Unsqueeze", ["x", "first"], ["w"]),
            node("Gather", ["table", "m"], ["c"]),
            node("Gather", ["x", "m0"], ["d"], axis=1),
            node("Squeeze", ["m", "first"], ["m0"]),
        ],
        [*X, typed("m", [1, 4], INT)],
        [("a", [1, 4]), typed("b", [1, 4], BOOL), ("w", [1, 1, 5, 4]), ("c", [1, 4, 3]), ("d", [1, 4, 4])],
        {"one": np.array(1, np.int64), "half": np.array(0.5, np.float32), "first": ints(0), "table": numbers(4, 3)},
    ),
    "boxes and elements that are written": (
        [
            node("ScatterND", ["x", "box", "u"], ["a"]),
            node("ScatterND", ["x", "rows", "v"], ["b"]),
            node("ScatterElements", ["x", "ends", "w"], ["c"], axis=2, reduction="add"),
            node("GatherND", ["x", "box"], ["d"]),
        ],
        [*X, ("u", [2, 2]), ("v", [2, 4]), ("w", [1, 5, 2])],
        [("a", [1, 5, 4]), ("b", [1, 5, 4]), ("c", [1, 5, 4]), ("d", [2, 2])],
        {
            "box": np.array([[[0, 1, 2], [0, 1, 3]], [[0, 2, 2], [0, 2, 3]]], np.int64),
            "rows": np.array([[0, 3], [0, 1]], np.int64),
            "ends": np.broadcast_to(ints(0, 3), (1, 5, 2)).copy(),
        },
    ),
    "what is returned with no batch in front": (
        [
            node("Transpose", ["x"], ["a"], perm=[2, 0, 1]),
            node("ReduceSum", ["x", "all"], ["b"], keepdims=0),
            node("ReduceMean", ["x", "first"], ["c"], keepdims=0),
            node("ReduceMax", ["x", "rest"], ["d"], keepdims=0),
            node("LogSoftmax", ["a"], ["e"], axis=2),
            node("Softmax", ["x"], ["f"], axis=0),
            node("MatMul", ["x", "v"], ["g"]),
        ],
        X,
        [("a", [4, 1, 5]), ("b", []), ("c", [5, 4]), ("d", [1]), ("e", [4, 1, 5]), ("f", [1, 5, 4]), ("g", [1, 5])],
        {"all": ints(0, 1, 2), "first": ints(0), "rest": ints(1, 2), "v": numbers(4)},
    ),
    "what is not finite": (
        [
            node("Mul", ["x", "large"], ["l"]),
            node("Mul", ["l", "large"], ["q"]),
            node("IsInf", ["q"], ["a"]),
            node("IsInf", ["q"], ["b"], detect_negative=0),
            node("Sub", ["q", "q"], ["r"]),
            node("IsNaN", ["r"], ["c"]),
        ],
        X,
        [typed("a", [1, 5, 4], BOOL), typed("b", [1, 5, 4], BOOL), typed("c", [1, 5, 4], BOOL)],
        {"large": np.array(1e30, np.float32)},
    ),
    "sums of products": (
        [
            node("Einsum", ["x", "w"], ["a"], equation="bij,hjk->bhik"),
            node("Einsum", ["x", "x"], ["b"], equation="bij,bij->i"),
            node("Einsum", ["x", "v", "x"], ["c"], equation="bij,j,bkj->bik"),
            node("CumSum", ["x", "last"], ["d"], exclusive=1, reverse=1),
            node("Trilu", ["x"], ["e"], upper=0),
            node("Reshape", ["x", "flat"], ["m"]),
            node("Gemm", ["m", "m"], ["f"], transA=1, alpha=0.5),
        ],
        X,
        [("a", [1, 2, 5, 3]), ("b", [5]), ("c", [1, 5, 5]), ("d", [1, 5, 4]), ("e", [1, 5, 4]), ("f", [4, 4])],
        {"w": numbers(2, 4, 3), "v": numbers(4), "last": np.array(2, np.int64), "flat": ints(5, 4)},
    ),
    "spectra": (
        [
            node("DFT", ["s", "", "place"], ["a"], onesided=1),
            node("STFT", ["s", "step", "window"], ["b"]),
        ],
        [("s", [1, 24, 1])],
        [("a", [1, 13, 2]), ("b", [1, 5, 5, 2])],
        {"place": np.array(1, np.int64), "step": np.array(4, np.int64), "window": np.hanning(8).astype(np.float32)},
    ),
    "grids": (
        [
            node("AffineGrid", ["t", "size"], ["g"], align_corners=1),
            node("GridSample", ["p", "g"], ["y"], align_corners=1),
        ],
        [("t", [1, 2, 3]), ("p", [1, 3, 5, 6])],
        [("y", [1, 3, 4, 7])],
        {"size": ints(1, 3, 4, 7)},
    ),
}


@pytest.mark.parametrize("kind", list(CASES))
def test_layers_that_there_are_compute_it(kind, tmp_path):
    written(tmp_path, *CASES[kind])


PADS = [
    pytest.param([0, 2, 1, 0, 1, 3], {"mode": "edge"}, id="edge"),
    pytest.param([0, 2, 1, 0, 1, 2], {"mode": "wrap"}, id="wrap"),
    pytest.param([0, -1, 2, 0, 3, -1], {}, id="what is taken away"),
    pytest.param([1, 0, 0, 0, 0, 2], {}, id="items of a batch"),
    pytest.param([0, 2, 0, 0, 1, 0], {"mode": "reflect"}, id="reflect"),
]


@pytest.mark.parametrize(("pads", "attributes"), PADS)
def test_padding_is_added(pads, attributes, tmp_path):
    shape = [n + p + q for n, p, q in zip([1, 5, 4], pads[:3], pads[3:], strict=True)]
    nodes = [node("Pad", ["x", "p", "v"], ["y"], **attributes)]
    written(tmp_path, nodes, X, [("y", shape)], {"p": ints(*pads), "v": np.array(0.5, np.float32)})


POOLS = [
    ("MaxPool", {"kernel_shape": [3, 2], "dilations": [2, 1], "pads": [1, 0, 2, 1]}),
    ("MaxPool", {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("AveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 0, 0, 1], "strides": [2, 2], "ceil_mode": 1}),
    (
        "AveragePool",
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
    ),
    ("AveragePool", {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [0, 1, 1, 0]}),
    ("LpPool", {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 0, 1]}),
    ("LpPool", {"kernel_shape": [2, 3], "p": 1}),
    ("GlobalLpPool", {"p": 2}),
]


@pytest.mark.parametrize(("op", "attributes"), POOLS)
def test_windows_that_the_layer_has_not(op, attributes, tmp_path):
    written(tmp_path, [node(op, ["x"], ["y"], **attributes)], [("x", [1, 3, 8, 7])], [("y", None)], opset=22)


SIZES = [
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic", "cubic_coeff_a": -0.5},
    {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
    {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "ceil"},
]


@pytest.mark.parametrize("how", SIZES)
@pytest.mark.parametrize("shape", [(7, 3), (3, 11)])
def test_points_that_the_layer_has_not(how, shape, tmp_path):
    nodes = [node("Resize", ["x", "", "", "s"], ["y"], **how)]
    written(tmp_path, nodes, [("x", [1, 2, 5, 6])], [("y", [1, 2, *shape])], {"s": ints(1, 2, *shape)})


def test_axes_of_volumes_and_lines_are_resized(tmp_path):
    nodes = [
        node("Resize", ["x", "", "", "s"], ["y"], mode="linear"),
        node("Resize", ["l", "", "", "t"], ["z"], mode="linear"),
    ]
    inputs = [("x", [1, 2, 3, 4, 5]), ("l", [1, 3, 6])]
    outputs = [("y", [1, 2, 5, 3, 4]), ("z", [1, 3, 10])]
    written(tmp_path, nodes, inputs, outputs, {"s": ints(1, 2, 5, 3, 4), "t": ints(1, 3, 10)})


def test_integers_of_any_size_are_not_computed_with(tmp_path):
    for op in ("Add", "Mul", "Sub"):
        proto = model([node(op, ["m", "m"], ["y"])], [typed("m", [1, 4], INT)], [typed("y", [1, 4], INT)])
        with pytest.raises(DiagnosticError, match="may exceed 16777216"):
            gp.save(gp.from_onnx(proto), tmp_path / "net.ncnn.param")


@pytest.mark.parametrize(
    ("op", "operands", "places", "attributes"),
    [
        ("GatherND", "x p", [[0, 5]], {}),
        ("GatherElements", "x p", [[[0, -9, 0, 0]]], {"axis": 1}),
        ("ScatterND", "x p u", [[0, 1 << 40]], {}),
        ("ScatterND", "x p u", [[0, 5]], {"reduction": "add"}),
    ],
)
def test_places_that_do_not_exist_are_refused(tmp_path, op, operands, places, attributes):
    nodes = [node(op, operands.split(), ["y"], **attributes)]
    inputs = [*X, *([("u", [1, 4])] if "u" in operands else [])]
    proto = model(nodes, inputs, [("y", None)], {"p": np.array(places, np.int64)})
    with pytest.raises(DiagnosticError, match=r"LEG0002.*an index is out of range"):
        gp.save(gp.from_onnx(proto), tmp_path / "net.ncnn.param")


def test_an_input_without_axes_is_refused(tmp_path):
    proto = model([node("Mul", ["x", "t"], ["y"])], [*X, ("t", [])], [("y", [1, 5, 4])])
    with pytest.raises(DiagnosticError, match="at least one axis besides the batch"):
        gp.save(gp.from_onnx(proto), tmp_path / "net.ncnn.param")


@pytest.mark.parametrize(("name", "number"), [("log1p", 27), ("expm1", 21)])
@pytest.mark.parametrize("shape", ["(1,3,4)", "(4,1,3)"])
def test_functions_that_onnx_makes_of_others_are_one_layer(name, number, shape, tmp_path):
    source = tmp_path / "net.pnnx.param"
    source.write_text(
        f"7767517\n3 2\npnnx.Input i 0 1 0 #0={shape}f32\npnnx.Expression e 1 1 0 1 expr={name}(@0) #0={shape}f32 #1={shape}f32\n"
        f"pnnx.Output o 1 0 1 #1={shape}f32\n"
    )
    source.with_name("net.pnnx.bin").write_bytes(b"PK\5\6" + bytes(18))
    gp.save(gp.load(source), tmp_path / "net.ncnn.param")
    lines = (tmp_path / "net.ncnn.param").read_text().splitlines()[2:]
    assert [line.split()[0] for line in lines if line.split()[0] != "Noop"] == ["Input", "UnaryOp"]
    assert any(f" 0={number}" in line for line in lines)
    x = np.array([-0.5, 1e-9, -1e-7, 0, 3e-4, 0.2, 1, 5, -0.99, 8, 1e-30, 0.7], np.float32)
    x = x.reshape([int(n) for n in shape[1:-1].split(",")])
    report = gp.verify(source, tmp_path / "net.ncnn.param")
    assert report.passed
    found = gp.run(gp.load(tmp_path / "net.ncnn.param"), {"0": x}, backend="reference")
    np.testing.assert_allclose(next(iter(found.values())), getattr(np, name)(x), rtol=1e-6)


@pytest.mark.parametrize("exponent", [3, 5])
def test_powers_of_negative_numbers_are_products(exponent, tmp_path):
    nodes = [node("Pow", ["x", "n"], ["y"])]
    text = written(tmp_path, nodes, X, [("y", [1, 5, 4])], {"n": np.array(exponent, np.float32)})
    assert " 0=6" not in text
