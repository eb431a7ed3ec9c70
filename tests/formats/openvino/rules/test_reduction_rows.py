"""Reductions followed by arithmetic, which OpenVINO's plugin fuses, compared with ONNX Runtime."""

from itertools import combinations, product

import numpy as np
import pytest

import graphport as gp
from tests.draws import spread
from tests.models import model, node

pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(3)
WORDS = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceL1"]
BEHIND = ["Add", "Mul", "Sub", "PRelu"]
SHAPES = [(2, 5), (2, 5, 6), (3, 4, 8), (2, 3, 4, 5)]


def reductions():
    """Yield op type, shape, axes, keepdims and the next operator: each value of each at least once."""
    for number, (shape, keep) in enumerate(product(SHAPES, (0, 1))):
        every = [axes for count in range(1, len(shape)) for axes in combinations(range(len(shape)), count)]
        for place, axes in enumerate(every):
            turn = number + place
            yield WORDS[turn % len(WORDS)], shape, axes, keep, BEHIND[turn % len(BEHIND)]


def computed(folder, op_type, shape, axes, keep, behind, *, through=None):
    """Return the results of ONNX Runtime and OpenVINO for a reduction of an operand that varies along one axis."""
    kept = [1 if axis in axes else n for axis, n in enumerate(shape) if keep or axis not in axes]
    wide = next((place for place, n in list(enumerate(kept))[::-1] if n > 1), 0)
    own = RANDOM.normal(size=[kept[wide], *[1] * (len(kept) - wide - 1)]).astype(np.float32)
    nodes = [node(op_type, ["x", "axes"], ["r"], keepdims=keep)]
    nodes += [node(through, ["r"], ["t"])] if through else []
    nodes += [node(behind, ["t" if through else "r", "c"], ["y"])]
    made = model(nodes, [("x", list(shape))], [("y", None)], {"axes": np.array(axes), "c": own}, opset=20)
    loaded = gp.from_onnx(made)
    gp.save(loaded, folder / "net.xml")
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    expected = gp.run(loaded, x, backend="onnxruntime")["y"]
    return expected, gp.run(gp.load(folder / "net.xml"), x, backend="openvino")["y"]


def test_what_is_after_a_reduction_reads_its_own_entry_of_a_constant(tmp_path):
    for case in spread(list(reductions())):
        expected, found = computed(tmp_path, *case)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(case))


@pytest.mark.parametrize("keep", [0, 1])
def test_what_stands_between_changes_nothing(tmp_path, keep):
    expected, found = computed(tmp_path, "ReduceMean", (2, 5, 6), (2,), keep, "Add", through="Sigmoid")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pool", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_pools_of_signals_before_constants(tmp_path, pool):
    scale = np.arange(5, dtype=np.float32).reshape(5, 1)
    nodes = [node(pool, ["x"], ["p"]), node("Mul", ["p", "s"], ["y"])]
    loaded = gp.from_onnx(model(nodes, [("x", [2, 5, 6])], [("y", None)], {"s": scale}))
    gp.save(loaded, tmp_path / "net.xml")
    x = {"x": RANDOM.normal(size=(2, 5, 6)).astype(np.float32)}
    found = gp.run(gp.load(tmp_path / "net.xml"), x, backend="openvino")["y"]
    np.testing.assert_allclose(found, gp.run(loaded, x, backend="onnxruntime")["y"], rtol=1e-5, atol=1e-6)


def test_constants_that_are_stored_as_codes_are_read_entry_by_entry(tmp_path):
    nodes = [node("ReduceMean", ["x", "a"], ["r"], keepdims=0), node("DequantizeLinear", ["q", "s"], ["c"])]
    nodes += [node("Add", ["r", "c"], ["y"])]
    constants = {"a": np.array([2]), "q": np.arange(5, dtype=np.int8) * 20, "s": np.float32(0.1)}
    loaded = gp.from_onnx(model(nodes, [("x", [2, 5, 6])], [("y", None)], constants, opset=20))
    gp.save(loaded, tmp_path / "net.xml")
    x = {"x": RANDOM.normal(size=(2, 5, 6)).astype(np.float32)}
    found = gp.run(gp.load(tmp_path / "net.xml"), x, backend="openvino")["y"]
    np.testing.assert_allclose(found, gp.run(loaded, x, backend="onnxruntime")["y"], rtol=1e-5, atol=1e-5)


def test_a_reduction_without_constants_after_it_is_one_layer(tmp_path):
    made = model(
        [node("ReduceMean", ["x", "a"], ["y"])], [("x", [2, 5, 6])], [("y", None)], {"a": np.array([2])}, opset=20
    )
    gp.save(gp.from_onnx(made), tmp_path / "net.xml")
    assert "Unsqueeze" not in (tmp_path / "net.xml").read_text()
