"""Options of the ncnn writer, and shapes that blobs cannot have, checked in its runtime."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.ncnn.test_layers import run_ncnn
from tests.models import model, node, write_onnx

pytest.importorskip("ncnn")

RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def written(tmp_path, proto, **options):
    """The proof of a conversion, and the text of the file."""
    report = gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.param", **options)
    assert report.passed, [finding.message for finding in report.findings]
    assert report.proof is not None
    assert any(each.runtime == "ncnn" and each.ran for each in report.proof.witnesses)
    return (tmp_path / "net.param").read_text()


def convolutions(batch=1):
    constants = {"w": numbers(4, 3, 3, 3), "k": numbers(4, 36)}
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Sigmoid", ["r"], ["s"]),
        node("Mul", ["r", "s"], ["y"]),
    ]
    return model(nodes, [("x", [batch, 3, 6, 6])], [("y", [batch, 4, 6, 6])], constants)


def test_a_batch_is_reported_once_with_a_remedy(tmp_path):
    loaded = gp.load(write_onnx(tmp_path / "net.onnx", convolutions(5)))
    with pytest.raises(DiagnosticError) as caught:
        gp.save(loaded, tmp_path / "net.param")
    (finding,) = caught.value.diagnostics
    assert "the input x is float32[5, 3, 6, 6]" in finding.message
    assert "--batch 1" in (finding.help or "")


def test_a_model_of_another_batch_is_written_for_one_item(tmp_path):
    text = written(tmp_path, convolutions(5), batch=1)
    assert "0=6 1=6 2=3" in text


def test_a_batch_that_stands_in_lengths_is_replaced(tmp_path):
    constants = {"flat": np.array([5, 12], np.int64)}
    proto = model([node("Reshape", ["x", "flat"], ["y"])], [("x", [5, 3, 4])], [("y", [5, 12])], constants)
    assert "Reshape" in written(tmp_path, proto, batch=1)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3)], id="steps"),
        pytest.param([node("CumSum", ["x", "first"], ["y"])], id="sums of all before"),
        pytest.param([node("Softmax", ["x"], ["y"], axis=0)], id="shares of all"),
        pytest.param([node("ReduceMean", ["x", "axis"], ["m"]), node("Sub", ["x", "m"], ["y"])], id="a mean"),
    ],
)
def test_a_first_axis_that_is_no_batch_stays_open(tmp_path, nodes):
    constants = {"w": numbers(1, 12, 4), "r": numbers(1, 12, 3), "first": np.array(0), "axis": np.array([0])}
    proto = model(nodes, [("x", ["s", 1, 4])], [("y", None)], constants, opset=18)
    assert " 1=1 2=0 13=233" in written(tmp_path, proto)
    loaded = gp.load(tmp_path / "net.param")
    for steps in (2, 5):
        x = numbers(steps, 1, 4)
        expected = gp.run(gp.from_onnx(proto), {"x": x}, backend="onnxruntime")["y"]
        np.testing.assert_allclose(gp.run(loaded, {"x": x}, backend="ncnn")["y"], expected, rtol=1e-5, atol=1e-6)


def test_items_that_meet_where_a_layer_takes_no_open_length_are_to_be_bound(tmp_path):
    parted = node("Split", ["x"], ["y", "z"], axis=0)
    proto = model([parted], [("x", ["s", 1, 4])], [("y", None), ("z", None)])
    with pytest.raises(DiagnosticError, match="constant sizes") as caught:
        gp.save(gp.from_onnx(proto), tmp_path / "net.param")
    assert "--input x=" in (caught.value.diagnostics[0].help or "")


@pytest.mark.parametrize("op_type", ["Softmax", "CumSum"])
def test_items_that_meet_are_not_treated_as_a_batch(tmp_path, op_type):
    given = ["x", "first"] if op_type == "CumSum" else ["x"]
    told = {} if op_type == "CumSum" else {"axis": 0}
    proto = model([node(op_type, given, ["y"], **told)], [("x", [5, 3])], [("y", [5, 3])], {"first": np.array(0)})
    with pytest.raises(DiagnosticError, match="mixes batch elements"):
        gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.param", batch=1)


def test_items_that_meet_are_refused(tmp_path):
    proto = model([node("ReduceMean", ["x"], ["y"], axes=[0])], [("x", [5, 3])], [("y", [1, 3])], opset=13)
    with pytest.raises(DiagnosticError, match="SHAPE0005"):
        gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.param", batch=1)


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_weights_take_half_the_bytes(tmp_path, kind, dtype):
    proto, x = convolutions(), numbers(1, 3, 6, 6)
    written(tmp_path, proto)
    whole = (tmp_path / "net.bin").stat().st_size
    written(tmp_path, proto, weights=kind)
    assert (tmp_path / "net.bin").stat().st_size == (whole - 4) // 2 + 4
    (found,) = run_ncnn(tmp_path / "net.param", {"x": x[0]}, ["y"]).values()
    # ncnn uses the rounded weights of this type, and so does the file when it is read again.
    kernel = next(each for each in proto.graph.initializer if each.name == "w")
    rounded = numpy_helper.to_array(kernel).astype(dtype).astype(np.float32)
    kernel.CopyFrom(numpy_helper.from_array(rounded, "w"))
    expected = gp.run(gp.from_onnx(proto), {"x": x}, backend="reference")["y"]
    np.testing.assert_allclose(found, expected[0], rtol=1e-4, atol=1e-5)
    again = gp.load(tmp_path / "net.param")
    np.testing.assert_allclose(gp.run(again, {"x": x}, backend="reference")["y"], expected, rtol=1e-4, atol=1e-5)
    gp.convert(tmp_path / "net.param", tmp_path / "again.param", verify=False)
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "net.bin").read_bytes()


def test_weights_that_a_type_does_not_reach_stay_whole(tmp_path):
    constants = {"w": np.full((1, 1, 2, 2), 1e5, np.float32)}
    proto = gp.from_onnx(model([node("Conv", ["x", "w"], ["y"])], [("x", [1, 1, 2, 2])], [("y", None)], constants))
    for kind, bits, element in (("f16", 32, np.float32(1e5)), ("bf16", 16, ml_dtypes.bfloat16(1e5))):
        gp.save(proto, tmp_path / "net.param", weights=kind)
        assert (tmp_path / "net.bin").stat().st_size == 4 + 4 * bits // 8
        (found,) = run_ncnn(tmp_path / "net.param", {"x": np.eye(2, dtype=np.float32)[None]}, ["y"]).values()
        assert found.item() == 2 * np.float32(element)


def test_reals_are_not_stored_in_eight_bits_by_a_writer(tmp_path):
    with pytest.raises(DiagnosticError, match="NCNN0306"):
        gp.save(gp.load(write_onnx(tmp_path / "net.onnx", convolutions())), tmp_path / "net.param", weights="int8")


def test_layers_take_in_activations(tmp_path):
    plain = written(tmp_path, convolutions())
    fused = written(tmp_path, convolutions(), optimize=True)
    assert "ReLU" in plain
    assert "ReLU" not in fused
    assert " 9=1" in fused
    assert "Swish" in fused


def given_weight(shape, **attributes):
    rank = len(shape)
    constants = {"m": numbers(6, int(np.prod(shape))), "s": np.array(shape, np.int64)}
    constants |= {"n": numbers(6, shape[0]), "t": np.array(shape[:1], np.int64)}
    nodes = [node("MatMul", ["z", "m"], ["f"]), node("Reshape", ["f", "s"], ["w"])]
    nodes += [node("MatMul", ["z", "n"], ["g"]), node("Reshape", ["g", "t"], ["b"])]
    nodes.append(node("Conv", ["x", "w", "b"], ["y"], **attributes))
    channels = shape[1] * attributes.get("group", 1)
    return model(nodes, [("x", [1, channels, *[7] * (rank - 2)]), ("z", [1, 6])], [("y", None)], constants)


@pytest.mark.parametrize(
    "proto",
    [
        pytest.param(given_weight([4, 3, 3, 2], pads=[1, 0, 1, 1]), id="plane"),
        pytest.param(given_weight([1, 3, 3, 3], strides=[2, 1]), id="one result"),
        pytest.param(given_weight([4, 1, 3, 3], group=4), id="depthwise"),
        pytest.param(given_weight([4, 2, 3]), id="line"),
    ],
)
def test_weights_may_be_blobs(tmp_path, proto):
    assert " 19=1" in written(tmp_path, proto)


def test_slices_with_steps_are_what_numpy_has():
    drawn = random.Random(3)
    for _ in range(25):
        dims = [1, *(drawn.randint(1, 7) for _ in range(drawn.randint(1, 4)))]
        axes = drawn.sample(range(1, len(dims)), drawn.randint(1, min(2, len(dims) - 1)))
        steps = [drawn.choice([1, 2, 3, -1, -2]) for _ in axes]
        starts = [drawn.randint(-dims[axis] - 1, dims[axis] + 1) for axis in axes]
        ends = [drawn.choice([drawn.randint(-9, 9), 99 if step > 0 else -99]) for step in steps]
        x = numbers(*dims)
        cut = {axis: slice(*bounds) for axis, *bounds in zip(axes, starts, ends, steps, strict=True)}
        expected = x[tuple(cut.get(axis, slice(None)) for axis in range(len(dims)))]
        if not expected.size:
            continue
        named = {"s": starts, "e": ends, "a": axes, "t": steps}
        constants = {name: np.array(value, np.int64) for name, value in named.items()}
        proto = model([node("Slice", ["x", *constants], ["y"])], [("x", dims)], [("y", None)], constants)
        found = gp.run(gp.from_onnx(proto), {"x": x}, backend="ncnn")["y"]
        np.testing.assert_array_equal(found, expected, err_msg=f"{dims} {cut}")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([(0, 1, 1), (2, -9, -1), (3, -9, -2)], id="turned, and turned with a step"),
        pytest.param([(1, 2, 1), (0, 3, 2), (0, 4, 3)], id="the last, with steps"),
        pytest.param([(1, -9, -1), (0, 3, 1), (3, -9, -1)], id="turned in front and behind"),
    ],
)
def test_slices_where_no_axis_is_the_batch(tmp_path, pieces):
    bounds = {name: np.array(told, np.int64) for name, told in zip("set", zip(*pieces, strict=True), strict=True)}
    constants = {"s": bounds["s"], "e": bounds["e"], "a": np.arange(3), "t": bounds["t"]}
    proto = model([node("Slice", ["x", *constants], ["y"])], [("x", [2, 3, 4])], [("y", None)], constants)
    written(tmp_path, proto)


def test_orders_of_more_axes_than_a_blob_has():
    drawn = random.Random(5)
    for _ in range(12):
        parts = [drawn.choice([1, 2, 3]) for _ in range(drawn.choice([5, 6, 7]))]
        order = [0, *drawn.sample(range(1, len(parts) + 1), len(parts))]
        x = numbers(1, int(np.prod(parts)))
        apart = np.array([1, *parts], np.int64)
        constants = {"apart": apart, "flat": np.array([1, -1], np.int64), "two": np.float32(2)}
        nodes = [
            node("Reshape", ["x", "apart"], ["h"]),
            node("Mul", ["h", "two"], ["m"]),
            node("Transpose", ["m"], ["t"], perm=order),
            node("Softmax", ["t"], ["s"], axis=3),
            node("Reshape", ["s", "flat"], ["y"]),
        ]
        loaded = gp.from_onnx(model(nodes, [("x", list(x.shape))], [("y", None)], constants))
        expected = gp.run(loaded, {"x": x}, backend="reference")["y"]
        np.testing.assert_allclose(gp.run(loaded, {"x": x}, backend="ncnn")["y"], expected, rtol=1e-5, atol=1e-6)


def shape_of(name, axis):
    return [node("Shape", [name], [f"{axis}s"], start=axis, end=axis + 1)]


def reshaped_open():
    constants = {"one": np.array([1], np.int64), "c": np.array([3], np.int64)}
    nodes = [
        *shape_of("x", 2),
        *shape_of("x", 3),
        node("Mul", ["2s", "c"], ["rows"]),
        node("Concat", ["one", "rows", "3s"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["y"]),
    ]
    return model(nodes, [("x", [1, 3, "h", "w"])], [("y", None)], constants, opset=15)


def cut_open():
    constants = {"one": np.array([1], np.int64), "axis": np.array([2], np.int64)}
    nodes = [
        *shape_of("x", 2),
        node("Sub", ["2s", "one"], ["last"]),
        node("Slice", ["x", "one", "last", "axis"], ["y"]),
    ]
    return model(nodes, [("x", [1, 3, "h", "w"])], [("y", None)], constants, opset=15)


def resized_open():
    constants = {"none": np.array([], np.float32), "first": np.array([1, 3], np.int64)}
    nodes = [
        node("Shape", ["z"], ["size"], start=2),
        node("Concat", ["first", "size"], ["to"], axis=0),
        node("Resize", ["x", "none", "none", "to"], ["r"], mode="linear"),
        node("Add", ["r", "z"], ["y"]),
    ]
    inputs = [("x", [1, 3, "h", "w"]), ("z", [1, 3, "a", "b"])]
    return model(nodes, inputs, [("y", None)], constants, opset=15)


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        pytest.param(reshaped_open(), '6="0w,*(3,0h)"', id="Reshape"),
        pytest.param(cut_open(), '20="-(0h,1)"', id="Crop"),
        pytest.param(resized_open(), '9="1w,1h"', id="Interp"),
    ],
)
def test_open_lengths_are_expressions(tmp_path, proto, said):
    assert said in written(tmp_path, proto)


@pytest.mark.parametrize("value", [0.5, -2.0])
def test_an_input_of_one_number_is_a_blob(tmp_path, value):
    proto = model([node("Add", ["x", "n"], ["y"])], [("x", [1, 3, 4]), ("n", [1])], [("y", None)])
    assert " 13=233" in written(tmp_path, proto)
    x, n = numbers(1, 3, 4), np.array([value], np.float32)
    found = gp.run(gp.load(tmp_path / "net.param"), {"x": x, "n": n}, backend="ncnn")["y"]
    np.testing.assert_allclose(found, x + n, rtol=1e-6)
