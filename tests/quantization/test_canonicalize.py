"""Equivalent forms are normalized to the form that integer kernels support, and results are unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.backends import reference
from graphport.formats.onnx import runtime as onnxruntime
from graphport.ir.verify import verify
from graphport.quantization.canonicalize import canonicalize
from tests.every import every
from tests.models import model, node
from tests.quantization import nets

ADDENDS = {
    "none": None,
    "row": (5,),
    "matrix of a row": (1, 5),
    "one": (1,),
    "scalar": (),
    "column": (3, 1),
    "full": (3, 5),
}


def _numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _same(found, inputs):
    """Check that canonicalization preserves the results of a model; return the canonicalized graph."""
    made = canonicalize(found.graph)
    verify(made)
    expected = reference.prepare(found.graph).run(inputs)
    given = reference.prepare(made).run(inputs)
    assert list(given) == list(expected)
    for name, x in expected.items():
        np.testing.assert_allclose(given[name], x, rtol=1e-5, atol=1e-5)
    return made


def _gemm(addend, **attributes):
    left = (4, 3) if attributes.get("transA") else (3, 4)
    right = (5, 4) if attributes.get("transB") else (4, 5)
    constants = {"w": _numbers(*right, seed=1)}
    if addend is not None:
        constants["c"] = _numbers(*addend, seed=2)
    nodes = [node("Gemm", ["x", "w", *(["c"] if addend is not None else [])], ["y"], **attributes)]
    return gp.from_onnx(model(nodes, [("x", list(left))], [("y", None)], constants)), {"x": _numbers(*left)}


@every("addend", list(ADDENDS))
@every("attributes", [
    pytest.param({}, id="plain"),
    pytest.param({"alpha": 0.5, "beta": 2.0}, id="factors"),
    pytest.param({"beta": 0.0}, id="the addend does not count"),
    pytest.param({"transA": 1}, id="left turned"),
    pytest.param({"transB": 1, "alpha": -1.0}, id="right turned"),
    pytest.param({"transA": 1, "transB": 1, "beta": 0.25}, id="both turned"),
])  # fmt: skip
def test_general_products_become_layers(addend, attributes):
    found, inputs = _gemm(ADDENDS[addend], **attributes)
    made = _same(found, inputs)
    (product,) = [item for item in made if item.op == "Gemm"]
    assert set(product.attributes) <= ({"transB"} if product.operand(2) else {"transB", "beta"})
    assert product.operand(2) is None or product.operand(2).storage.shape == (5,)
    named = gp.quantize(found, [inputs] * 4, preset="fast").report
    assert [layer.name for layer in named.layers] == ["Gemm"]


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_an_addend_that_is_computed_is_added_after(beta):
    nodes = [node("Gemm", ["x", "w", "z"], ["y"], beta=beta)]
    found = gp.from_onnx(model(nodes, [("x", [3, 4]), ("z", [3, 5])], [("y", None)], {"w": _numbers(4, 5)}))
    made = _same(found, {"x": _numbers(3, 4), "z": _numbers(3, 5, seed=1)})
    assert [item.op for item in made] == ["Gemm", "Add"] if beta == 1 else ["Mul", "Gemm", "Add"]


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (2, 3, 4, 5)])
def test_left_constant_of_matmul_moves_to_the_right(shape):
    nodes = [node("MatMul", ["w", "x"], ["h"]), node("Relu", ["h"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", list(shape))], [("y", None)], {"w": _numbers(6, 4)}))
    made = _same(found, {"x": _numbers(*shape)})
    assert [item.op for item in made] == ["Transpose", "MatMul", "Transpose", "Relu"]


def test_a_product_that_is_an_output_keeps_its_name():
    found = gp.from_onnx(
        model([node("MatMul", ["w", "x"], ["y"])], [("x", [4, 5])], [("y", None)], {"w": _numbers(6, 4)})
    )
    _same(found, {"x": _numbers(4, 5)})


@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (-1,), (1, -2)])
def test_pad_axes_are_expanded_to_all_axes(axes):
    pads = np.arange(1, 2 * len(axes) + 1)
    nodes = [node("Pad", ["x", "p", "", "a"], ["y"])]
    found = gp.from_onnx(
        model(nodes, [("x", ["N", 2, 3, 4])], [("y", None)], {"p": pads, "a": np.asarray(axes)}, opset=21)
    )
    made = _same(found, {"x": _numbers(2, 2, 3, 4)})
    assert [value.storage.count for value in made.constants] == [8]


@pytest.mark.parametrize("lengths", [
    pytest.param({"sizes": [6, 10]}, id="lengths"),
    pytest.param({"scales": [2.0, 1.5]}, id="factors"),
    pytest.param({"sizes": [2, 3]}, id="shorter"),
])  # fmt: skip
def test_resize_axes_are_expanded_to_all_axes(lengths):
    kinds = {"sizes": np.int64, "scales": np.float32}
    ((name, numbers),) = lengths.items()
    inputs = ["x", "", "s"] if name == "scales" else ["x", "", "", "s"]
    nodes = [node("Resize", inputs, ["y"], mode="linear", axes=[2, 3])]
    found = gp.from_onnx(
        model(nodes, [("x", ["N", 2, 4, 4])], [("y", None)], {"s": np.asarray(numbers, kinds[name])}, opset=19)
    )
    (resize,) = _same(found, {"x": _numbers(2, 2, 4, 4)})
    assert resize.operand(2).storage.count == 4


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_automatic_padding_of_dilated_convolutions_is_stated_in_numbers(mode):
    """ONNX Runtime refuses it while it runs."""
    nodes = [node("Conv", ["x", "w"], ["y"], auto_pad=mode, dilations=[2, 1], strides=[1, 2])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 3, 7, 8])], [("y", None)], {"w": _numbers(4, 3, 3, 2)}))
    made = _same(found, {"x": _numbers(2, 3, 7, 8)})
    assert "auto_pad" not in next(iter(made)).attributes
    assert gp.quantize(found, nets.samples(found), preset="fast").report.snr_db > 25


@pytest.mark.parametrize("name", ["Pad", "Resize"])
def test_quantized_operators_with_axes_load_in_onnx_runtime(name):
    """Moving transpositions, ONNX Runtime forgets the axes."""
    moved = {
        "Pad": node("Pad", ["h", "p", "", "a"], ["m"]),
        "Resize": node("Resize", ["h", "", "", "s"], ["m"], mode="linear", axes=[2, 3]),
    }[name]
    constants = {"w": _numbers(8, 3, 3, 3), "v": _numbers(4, 8, 1, 1), "p": np.asarray([1, 2, 0, 1]),
                 "a": np.asarray([2, 3]), "s": np.asarray([9, 11])}  # fmt: skip
    nodes = [node("Conv", ["x", "w"], ["h"], pads=[1] * 4), moved, node("Conv", ["m", "v"], ["y"])]
    constants = {key: x for key, x in constants.items() if any(key in item.input for item in nodes)}
    found = gp.from_onnx(model(nodes, [("x", ["N", 3, 8, 8])], [("y", None)], constants, opset=21))
    made = gp.quantize(found, nets.samples(found), preset="fast")
    x = nets.samples(found, 2, seed=3)
    computed, said = (onnxruntime.prepare(made.graph, optimize=flag).run(x)["y"] for flag in (True, False))
    assert nets.snr(said, computed) > 60


def test_contiguous_arrays_are_not_copied():
    found = nets.residual()
    assert canonicalize(found.graph) is found.graph


def test_products_with_reciprocals_are_quotients_that_runtimes_know():
    nodes = [
        node("Pow", ["x", "two"], ["sq"]),
        node("ReduceMean", ["sq"], ["mean"], axes=[-1], keepdims=1),
        node("Add", ["mean", "eps"], ["var"]),
        node("Sqrt", ["var"], ["std"]),
        node("Reciprocal", ["std"], ["inverse"]),
        node("Mul", ["inverse", "x"], ["unit"], name="unit"),
        node("Mul", ["unit", "g"], ["y"]),
    ]
    gain = np.linspace(0.5, 2, 8).astype(np.float32)
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "g": gain}
    found = gp.from_onnx(model(nodes, [("x", ["N", 8])], [("y", ["N", 8])], constants))
    made = canonicalize(found.graph)
    assert [item.op for item in made if item.op in ("Div", "Reciprocal")] == ["Div"]
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    expected = x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + 1e-5) * gain
    assert np.allclose(gp.run(gp.Model(made), {"x": x})["y"], expected, rtol=1e-5)
