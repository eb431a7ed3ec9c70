"""What ncnn computes from our files is what we compute."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.api.run import session, timed_session
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.ncnn import runtime as ncnn
from tests.models import model, node, typed, write_onnx

runtime = pytest.importorskip("ncnn")

RANDOM = np.random.default_rng(0)


def numbers(*shape, scale=0.3):
    return (RANDOM.normal(size=shape) * scale).astype(np.float32)


def batch_norm(name, channels, constants):
    constants |= {f"{name}.{key}": numbers(channels) for key in ("s", "b", "m")}
    constants[f"{name}.v"] = np.abs(numbers(channels)) + 0.5
    return [f"{name}.{key}" for key in ("s", "b", "m", "v")]


def residual():
    constants = {"w0": numbers(8, 3, 3, 3), "w1": numbers(8, 8, 3, 3), "b1": numbers(8), "w2": numbers(8, 8, 1, 1)}
    constants |= {"fc": numbers(8, 10), "fb": numbers(10)}
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c0", *batch_norm("n0", 8, constants)], ["n0"]),
        node("Relu", ["n0"], ["r0"]),
        node("MaxPool", ["r0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["p0", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Conv", ["p0", "w2"], ["c2"]),
        node("Add", ["c1", "c2"], ["a"]),
        node("Relu", ["a"], ["r1"]),
        node("Add", ["r1", "p0"], ["s"]),
        node("GlobalAveragePool", ["s"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "fc", "fb"], ["y"]),
    ]
    return model(nodes, [("x", [1, 3, 32, 32])], [("y", [1, 10])], constants)


def depthwise():
    constants = {"d": numbers(8, 1, 3, 5), "db": numbers(8), "p": numbers(12, 4, 1, 1), "slope": numbers(12, 1, 1)}
    nodes = [
        node("Conv", ["x", "d", "db"], ["c"], group=8, pads=[1, 2, 0, 1], strides=[1, 2], dilations=[2, 1]),
        node("Clip", ["c", "low", "high"], ["k"]),
        node("Conv", ["k", "p"], ["q"], group=2),
        node("PRelu", ["q", "slope"], ["r"]),
        node("Split", ["r", "parts"], ["s0", "s1"], axis=1),
        node("Concat", ["s1", "s0"], ["t"], axis=1),
        node("Reshape", ["t", "grouped"], ["u"]),
        node("Transpose", ["u"], ["v"], perm=[0, 2, 1, 3]),
        node("Reshape", ["v", "back"], ["y"]),
    ]
    constants |= {"low": np.float32(0), "high": np.float32(6), "parts": np.array([5, 7])}
    constants |= {"grouped": np.array([1, 3, 4, 11 * 7]), "back": np.array([1, 12, 11, 7])}
    return model(nodes, [("x", [1, 8, 14, 15])], [("y", [1, 12, 11, 7])], constants)


def squeeze_excite():
    constants = {"w": numbers(16, 4, 1, 1), "e0": numbers(4, 16, 1, 1), "e1": numbers(16, 4, 1, 1), "eb": numbers(16)}
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("HardSwish", ["c"], ["h"]),
        node("ReduceMean", ["h"], ["m"], axes=[2, 3], keepdims=1),
        node("Conv", ["m", "e0"], ["s"]),
        node("Sigmoid", ["s"], ["g"]),
        node("Mul", ["s", "g"], ["silu"]),
        node("Conv", ["silu", "e1", "eb"], ["e"]),
        node("HardSigmoid", ["e"], ["z"], alpha=1 / 6),
        node("Mul", ["h", "z"], ["t"]),
        node("AveragePool", ["t"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    ]
    return model(nodes, [("x", [1, 4, 9, 10])], [("y", [1, 16, 5, 5])], constants)


def unet():
    constants = {"a": numbers(6, 2, 3, 3), "b": numbers(8, 6, 3, 3), "t": numbers(8, 6, 2, 2), "tb": numbers(6)}
    constants |= {"m": numbers(4, 12, 3, 3), "o": numbers(3, 10, 1, 1), "sizes": np.array([1, 4, 16, 12])}
    nodes = [
        node("Conv", ["x", "a"], ["c0"], pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["c0"], ["l0"], alpha=0.2),
        node("MaxPool", ["l0"], ["d0"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["d0", "b"], ["c1"], pads=[1, 1, 1, 1]),
        node("InstanceNormalization", ["c1", "is", "ib"], ["n1"]),
        node("Relu", ["n1"], ["l1"]),
        node("ConvTranspose", ["l1", "t", "tb"], ["u0"], strides=[2, 2]),
        node("Concat", ["l0", "u0"], ["j0"], axis=1),
        node("Conv", ["j0", "m"], ["c2"], pads=[1, 1, 1, 1]),
        node("AveragePool", ["c2"], ["d1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["d1", "", "", "sizes"], ["u1"], mode="linear"),
        node("Concat", ["c2", "l0", "u1"], ["j1"], axis=1),
        node("Slice", ["j1", "zero", "ten", "one"], ["k"]),
        node("Conv", ["k", "o"], ["q"]),
        node("Softmax", ["q"], ["y"], axis=1),
    ]
    constants |= {
        "is": numbers(8),
        "ib": numbers(8),
        "zero": np.array([0]),
        "ten": np.array([10]),
        "one": np.array([1]),
    }
    return model(nodes, [("x", [1, 2, 16, 12])], [("y", [1, 3, 16, 12])], constants)


def transformer():
    constants = {name: numbers(8, 8) for name in ("q", "k", "v", "o")} | {
        "qb": numbers(8),
        "ls": numbers(8),
        "lb": numbers(8),
    }
    constants |= {"h": np.array([1, 5, 2, 4]), "f": np.array([1, 5, 8]), "root": np.float32(0.5)}
    nodes = [node("LayerNormalization", ["x", "ls", "lb"], ["n"])]
    for name in ("q", "k", "v"):
        nodes += [
            node("MatMul", ["n", name], [f"{name}0"]),
            node("Add", [f"{name}0", "qb"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "h"], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [f"{name}3"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        node("MatMul", ["q3", "k3"], ["s"]),
        node("Mul", ["s", "root"], ["r"]),
        node("Softmax", ["r"], ["p"]),
        node("MatMul", ["p", "v3"], ["c"]),
        node("Transpose", ["c"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "f"], ["u"]),
        node("MatMul", ["u", "o"], ["w"]),
        node("Add", ["w", "x"], ["y"]),
    ]
    return model(nodes, [("x", [1, 5, 8])], [("y", [1, 5, 8])], constants)


def vision_transformer():
    """As PyTorch exports it: the batch in the middle of queries, keys and values, lengths computed from shapes."""
    width, heads = 8, 2
    constants = {"p": numbers(width, 3, 4, 4), "cls": numbers(1, 1, width), "pos": numbers(1, 10, width)}
    constants |= {
        "ls": numbers(width),
        "lb": numbers(width),
        "qkv": numbers(width, 3 * width),
        "qb": numbers(3 * width),
    }
    constants |= {"o": numbers(width, width), "h": numbers(width, 5), "hb": numbers(5), "i0": np.array(0)}
    constants |= {
        "flat": np.array([0, width, -1]),
        "axis": np.array([0]),
        "rest": np.array([10, 3, heads, width // heads]),
    }
    constants |= {"back": np.array([10, width])}
    nodes = [
        node("Conv", ["x", "p"], ["c"], strides=[4, 4]),
        node("Reshape", ["c", "flat"], ["f"]),
        node("Transpose", ["f"], ["t"], perm=[0, 2, 1]),
        node("Concat", ["cls", "t"], ["j"], axis=1),
        node("Add", ["j", "pos"], ["e"]),
        node("LayerNormalization", ["e", "ls", "lb"], ["n"]),
        node("MatMul", ["n", "qkv"], ["m"]),
        node("Add", ["m", "qb"], ["a"]),
        node("Shape", ["a"], ["shape"]),
        node("Gather", ["shape", "axis"], ["batch"]),
        node("Concat", ["batch", "rest"], ["five"], axis=0),
        node("Reshape", ["a", "five"], ["r"]),
        node("Transpose", ["r"], ["u"], perm=[2, 0, 3, 1, 4]),
        node("Split", ["u"], ["q0", "k0", "v0"], axis=0),
        *(node("Squeeze", [f"{name}0", "axis"], [name]) for name in "qkv" if name != "k"),
        node("Gather", ["u", "one"], ["k"], axis=0),
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["w"], axis=-1),
        node("MatMul", ["w", "v"], ["z"]),
        node("Transpose", ["z"], ["zt"], perm=[0, 2, 1, 3]),
        node("Concat", ["batch", "back"], ["three"], axis=0),
        node("Reshape", ["zt", "three"], ["zr"]),
        node("MatMul", ["zr", "o"], ["zo"]),
        node("Add", ["zo", "e"], ["sum"]),
        node("Gather", ["sum", "i0"], ["first"], axis=1),
        node("Gemm", ["first", "h", "hb"], ["y"]),
    ]
    constants["one"] = np.array(1)
    return model(nodes, [("x", ["N", 3, 12, 12])], [("y", ["N", 5])], constants)


def recurrent():
    constants = {"w": numbers(2, 12, 4), "r": numbers(2, 12, 3), "b": numbers(2, 24), "s": np.array([0, 0, -1])}
    constants |= {
        "gw": numbers(1, 15, 6),
        "gr": numbers(1, 15, 5),
        "gb": numbers(1, 30),
        "o": numbers(5, 2),
        "i": np.array(-1),
    }
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node("LSTM", ["t", "w", "r", "b"], ["l"], hidden_size=3, direction="bidirectional"),
        node("Transpose", ["l"], ["m"], perm=[0, 2, 1, 3]),
        node("Reshape", ["m", "s"], ["u"]),
        node("GRU", ["u", "gw", "gr", "gb"], ["g"], hidden_size=5, linear_before_reset=1),
        node("Squeeze", ["g", "axis"], ["q"]),
        node("Gather", ["q", "i"], ["last"], axis=0),
        node("MatMul", ["last", "o"], ["y"]),
    ]
    constants["axis"] = np.array([1])
    return model(nodes, [("x", [1, 7, 4])], [("y", [1, 2])], constants)


NETS = {
    "residual": residual,
    "depthwise": depthwise,
    "squeeze excite": squeeze_excite,
    "U-Net": unet,
    "attention": transformer,
    "vision transformer": vision_transformer,
    "recurrent": recurrent,
}


@pytest.mark.parametrize("name", NETS)
def test_ncnn_computes_from_our_files_what_we_compute(tmp_path, name):
    source = gp.load(write_onnx(tmp_path / "net.onnx", NETS[name]()))
    x = numbers(*(dim if isinstance(dim, int) else 1 for dim in source.inputs["x"].fact.shape), scale=1)
    expected = gp.run(source, {"x": x}, backend="onnxruntime")["y"]
    np.testing.assert_allclose(gp.run(source, {"x": x}, backend="ncnn")["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETS)
def test_a_written_ncnn_file_reads_as_the_same_net(tmp_path, name):
    write_onnx(tmp_path / "net.onnx", NETS[name]())
    report = gp.convert(tmp_path / "net.onnx", tmp_path / "net.ncnn.param", verify=True)
    assert report.passed
    text = (tmp_path / "net.ncnn.param").read_text().split("\n")
    readers = [blob for line in text[2:-1] for blob in line.split()[4 : 4 + int(line.split()[2])]]
    assert len(readers) == len(set(readers))


def test_the_items_of_a_batch_are_run_one_after_another(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], [("x", ["N", 3, 4])], [("y", ["N", 3, 4])])
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", proto))
    x = numbers(5, 3, 4)
    assert gp.run(loaded, {"x": x}, backend="ncnn")["y"].tolist() == np.maximum(x, 0).tolist()


def test_a_batch_that_is_declared_is_run_item_by_item(tmp_path):
    proto = model(
        [node("Softmax", ["x"], ["s"], axis=1), node("Transpose", ["s"], ["y"], perm=[0, 2, 1])],
        [("x", [3, 4, 5])],
        [("y", [3, 5, 4])],
    )
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", proto))
    x = numbers(3, 4, 5)
    expected = gp.run(loaded, {"x": x}, backend="onnxruntime")["y"]
    np.testing.assert_allclose(gp.run(loaded, {"x": x}, backend="ncnn")["y"], expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (1, 4)])
@pytest.mark.parametrize("keeps", [0, 1])
def test_results_have_their_own_shapes(tmp_path, shape, keeps):
    constants = {"first": np.array([0]), "two": np.array([0, 1])}
    nodes = [node("ReduceSum", ["x", axes], [f"y_{axes}"], keepdims=keeps) for axes in ("first", "two", "")]
    nodes += [node("Transpose", ["x"], ["t"], perm=range(len(shape))[::-1]), node("ArgMax", ["x"], ["i"], axis=-1)]
    outputs = [(each.output[0], None) for each in nodes[:-1]] + [typed("i", None, TensorProto.INT64)]
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", model(nodes, [("x", shape)], outputs, constants)))
    x = numbers(*shape)
    found, expected = (gp.run(loaded, {"x": x}, backend=name) for name in ("ncnn", "onnxruntime"))
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype), name
        np.testing.assert_allclose(found[name], array, rtol=1e-5)


def test_items_stand_where_the_batch_of_a_result_is(tmp_path):
    proto = model([node("Transpose", ["x"], ["y"], perm=[1, 0, 2])], [("x", ["N", 3, 4])], [("y", [3, "N", 4])])
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", proto))
    x = numbers(5, 3, 4)
    assert np.array_equal(gp.run(loaded, {"x": x}, backend="ncnn")["y"], x.transpose(1, 0, 2))


def test_a_result_without_a_batch_is_refused_for_several_items(tmp_path):
    proto = model([node("Squeeze", ["x", "axis"], ["y"])], [("x", ["N", 4])], [("y", [4])], {"axis": np.array([0])})
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", proto))
    assert gp.run(loaded, {"x": numbers(1, 4)}, backend="ncnn")["y"].shape == (4,)
    with pytest.raises(DiagnosticError, match="SHAPE"):
        gp.run(loaded, {"x": numbers(2, 4)}, backend="ncnn")


def test_what_begins_with_no_batch_of_one_is_a_blob_with_all_axes(tmp_path):
    proto = model([node("Softmax", ["x"], ["y"], axis=0)], [("x", [2, 3])], [("y", [2, 3])])
    report = gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.ncnn.param")
    assert report.passed
    assert (tmp_path / "net.ncnn.param").read_text().count("13=233") == 2
    back = gp.load(tmp_path / "net.ncnn.param")
    assert [value.fact.shape for value in (*back.inputs.values(), *back.outputs.values())] == [(2, 3), (2, 3)]


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param([node("Softmax", ["c"], ["y"], axis=0)], id="Softmax"),
        pytest.param([node("CumSum", ["c", "first"], ["y"])], id="CumSum"),
        pytest.param([node("Slice", ["c", "last", "end", "axis", "back"], ["y"])], id="turned"),
        pytest.param([node("Concat", ["c", "c"], ["y"], axis=0)], id="Concat"),
        pytest.param([node("ReduceMax", ["c"], ["y"], axes=[0], keepdims=1)], id="ReduceMax"),
    ],
)
def test_items_stay_apart_or_are_computed_together_or_refused(behind):
    constants = {"w": numbers(2, 3, 1, 1), "first": np.array(0), "last": np.array([-1]), "end": np.array([-99])}
    constants |= {"axis": np.array([0]), "back": np.array([-1])}
    for batch in (2, "N"):
        whole = gp.from_onnx(model(behind, [("c", [batch, 3, 4, 5])], [("y", None)], constants, opset=17))
        c = numbers(2, 3, 4, 5)
        expected = gp.run(whole, {"c": c}, backend="reference")["y"]
        np.testing.assert_allclose(gp.run(whole, {"c": c}, backend="ncnn")["y"], expected, rtol=1e-5, atol=1e-6)
        # A convolution takes one item at a time.
        nodes = [node("Conv", ["x", "w"], ["c"]), *behind]
        alone = gp.from_onnx(model(nodes, [("x", [batch, 3, 4, 5])], [("y", None)], constants, opset=17))
        with pytest.raises(DiagnosticError, match="mixes the samples of a batch"):
            gp.run(alone, {"x": c}, backend="ncnn")


def test_windows_over_items_are_refused():
    nodes = [node("Transpose", ["x"], ["t"], perm=[2, 3, 0, 1]), node("MaxPool", ["t"], ["y"], kernel_shape=[2, 1])]
    loaded = gp.from_onnx(model(nodes, [("x", ["N", 3, 4, 5])], [("y", None)]))
    with pytest.raises(DiagnosticError, match="mixes the samples of a batch"):
        gp.run(loaded, {"x": numbers(2, 3, 4, 5)}, backend="ncnn")


def test_items_stay_apart_where_axes_are_their_own():
    constants = {"w": numbers(2, 3, 1, 1), "zero": np.array([0]), "far": np.array([99]), "axis": np.array([0])}
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Slice", ["c", "zero", "far", "axis"], ["s"]),
        node("Softmax", ["s"], ["m"], axis=1),
        node("Concat", ["m", "c"], ["y"], axis=2),
    ]
    loaded = gp.from_onnx(model(nodes, [("x", ["N", 3, 4, 5])], [("y", None)], constants))
    x = numbers(3, 3, 4, 5)
    expected = gp.run(loaded, {"x": x}, backend="reference")["y"]
    np.testing.assert_allclose(gp.run(loaded, {"x": x}, backend="ncnn")["y"], expected, rtol=1e-5, atol=1e-6)


def test_every_value_that_ncnn_has_is_returned(tmp_path):
    source = gp.load(write_onnx(tmp_path / "net.onnx", residual()))
    x = numbers(1, 3, 32, 32)
    ours = gp.run(source, {"x": x}, backend="onnxruntime", every_value=True)
    theirs = gp.run(source, {"x": x}, backend="ncnn", every_value=True)
    assert len(theirs) > 5
    for name, array in theirs.items():
        np.testing.assert_allclose(array, ours[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("proto", "reason"),
    [
        pytest.param(
            lambda: model([node("Det", ["x"], ["y"])], [("x", [1, 3, 3])], [("y", [1])]),
            "unsupported operator Det",
            id="a word that ncnn has not",
        ),
    ],
)
def test_what_ncnn_cannot_express_is_reported(tmp_path, proto, reason):
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", proto()))
    shapes = {name: [dim for dim in value.fact.dims if isinstance(dim, int)] for name, value in loaded.inputs.items()}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(DiagnosticError, match=reason):
        gp.run(loaded, arrays, backend="ncnn")


def test_shape_arithmetic_and_constants_of_an_export_are_settled(tmp_path):
    from onnx import numpy_helper

    constant = numpy_helper.from_array(np.array([0.5], np.float32))
    nodes = [
        node("Constant", [], ["half"], value=constant),
        node("Mul", ["x", "half"], ["m"]),
        node("Shape", ["m"], ["s"]),
        node("Gather", ["s", "zero"], ["b"], axis=0),
        node("Concat", ["b", "rest"], ["t"], axis=0),
        node("Reshape", ["m", "t"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([6, -1])}
    proto = model(nodes, [("x", ["N", 3, 4])], [("y", None)], constants)
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", proto))
    x = numbers(2, 3, 4)
    found = gp.run(loaded, {"x": x}, backend="ncnn")["y"]
    np.testing.assert_allclose(found, (x * 0.5).reshape(2, 6, 2), rtol=1e-6)


@pytest.mark.parametrize("outputs", [["y", "z"], ["z", "y"]])
def test_reported_to_be_quick_it_computes_as_alone(tmp_path, outputs):
    nodes = [node("Sigmoid", ["x"], ["y"]), node("Sub", ["y", "c"], ["z"])]
    shape, constants = (1, 3, 8, 8), {"c": np.float32(0.5)}
    loaded = gp.from_onnx(model(nodes, [("x", shape)], [(name, shape) for name in outputs], constants))
    x = numbers(*shape)
    found, expected = (make(loaded, "ncnn").run({"x": x}) for make in (timed_session, session))
    assert list(found) == outputs
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], atol=2e-3)


@pytest.mark.parametrize(("way", "is_default"), [("quick", True), ("careful", False)])
def test_only_what_is_quick_has_options_as_they_are(tmp_path, way, is_default):
    gp.save(gp.load(write_onnx(tmp_path / "net.onnx", residual())), tmp_path / "net.param")
    options, default = ncnn._load(str(tmp_path / "net.param"), "1", way, "--").args[1].opt, runtime.Net().opt
    named = [name for name in dir(default) if name.startswith("use_") or name == "lightmode"]
    assert all(getattr(options, name) == getattr(default, name) for name in named) == is_default
    assert options.num_threads == 1
