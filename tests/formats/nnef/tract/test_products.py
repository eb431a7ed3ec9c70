"""Products of matrices that tract 0.23.9 ends over, or refuses, unless they are said another way."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed

RNG = np.random.default_rng(3)


def written(place, nodes, given, constants, expected):
    """The network in both flavours below `place`, with what it is given."""
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(name, kinds[a.dtype.kind], a.shape) for name, a in given.items()]
    output = helper.make_tensor_value_info("y", kinds[expected.dtype.kind], expected.shape)
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "products", inputs, [output], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    place.mkdir(parents=True)
    onnx.save(model, place.with_suffix(".onnx"))
    np.savez(place / "given.npz", **given)
    gp.save(gp.load(place.with_suffix(".onnx")), place / "model", format="nnef", flavour="tract")
    place.with_suffix(".onnx").unlink()


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 2)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4, 5)), ((5, 1, 3, 4), (2, 4, 3))],
)
def test_whole_numbers_are_multiplied(tmp_path, left, right):
    given = {name: RNG.integers(-(2**14), 2**14, shape) for name, shape in (("a", left), ("b", right))}
    expected = np.asarray(given["a"] @ given["b"])
    written(tmp_path / "all" / "one", [helper.make_node("MatMul", ["a", "b"], ["y"])], given, {}, expected)
    computed(tmp_path / "all")
    (found,) = np.load(tmp_path / "all" / "one" / "found.npz").values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("turned", [{}, {"transA": 1, "transB": 1}, {"transB": 1}])
def test_whole_numbers_are_multiplied_and_added(tmp_path, turned):
    given = {name: RNG.integers(-9, 9, (3, 3)) for name in "abc"}
    sides = (given[name].T if f"trans{name.upper()}" in turned else given[name] for name in "ab")
    expected = np.matmul(*sides) + given["c"]
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], **turned)
    written(tmp_path / "all" / "one", [node], given, {}, expected)
    computed(tmp_path / "all")
    (found,) = np.load(tmp_path / "all" / "one" / "found.npz").values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("shape", "joined"),
    [
        ((2, 2, 8, 6), (4, 8, 6)),
        ((2, 2, 2, 8, 6), (8, 8, 6)),
        ((2, 2, 3, 8, 6), (4, 3, 8, 6)),
        ((2, 3, 4, 6), (2, 12, 6)),
        ((2, 3, 4, 6), (24, 6)),
        ((4, 8, 6), (2, 2, 8, 6)),
    ],
)
def test_a_weight_behind_joined_axes(tmp_path, shape, joined):
    x, weight = (RNG.normal(size=size).astype(np.float32) for size in (shape, (6, 5)))
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "joined"], ["j"]),
        helper.make_node("MatMul", ["j", "weight"], ["y"]),
    ]
    expected = np.maximum(x, 0).reshape(joined) @ weight
    written(tmp_path / "all" / "one", nodes, {"x": x}, {"joined": np.array(joined), "weight": weight}, expected)
    computed(tmp_path / "all")
    (found,) = np.load(tmp_path / "all" / "one" / "found.npz").values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
