"""Copies that are joined with others and multiplied, as the neighbours of points are: tract loses none."""

from itertools import product

import numpy as np

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed
from tests.models import model, node, typed, write_onnx

RANDOM = np.random.default_rng(14)
COPIED = {
    "Expand": {"shape": np.array([2, 10, 3, 3])},
    "Tile": {"repeats": np.array([1, 1, 3, 1])},
}


def neighbours(op_type, factor):
    """The way from each of ten points to three others, beside the point itself, through one layer."""
    ends = {"start": np.array([0]), "end": np.array([10]), "axis": np.array([1])} if factor == "Slice" else {}
    weights = RANDOM.normal(size=(5, 6, 1, 1) if factor == "Conv" else (6, 5)).astype(np.float32)
    nodes = [
        node("Concat", ["x", "x", "x"], ["others"], axis=2),
        node("Sub", ["others", "x"], ["ways"]),
        node(op_type, ["x", *COPIED[op_type]], ["points"]),
        node("Concat", ["ways", "points"], ["edges"], axis=3),
    ]
    if factor == "Conv":
        nodes += [node("Transpose", ["edges"], ["turned"], perm=[0, 3, 1, 2]), node("Conv", ["turned", "w"], ["y"])]
    elif factor == "MatMul":
        nodes.append(node("MatMul", ["edges", "w"], ["y"]))
    else:
        nodes += [node("Slice", ["edges", *ends], ["some"]), node("MatMul", ["some", "w"], ["y"])]
    return model(nodes, [typed("x", [2, 10, 1, 3])], [("y", None)], {"w": weights, **COPIED[op_type], **ends})


def test_copies_that_are_part_of_a_factor(tmp_path):
    x = RANDOM.normal(size=(2, 10, 1, 3)).astype(np.float32)
    expected = {}
    for op_type, factor, flavour in product(COPIED, ("Conv", "MatMul", "Slice"), ("khronos", "tract")):
        place = tmp_path / "all" / f"{op_type}-{factor}-{flavour}"
        place.mkdir(parents=True)
        np.savez(place / "given.npz", x=x)
        loaded = gp.load(write_onnx(tmp_path / "m.onnx", neighbours(op_type, factor)))
        gp.save(loaded, place / "model", format="nnef", flavour=flavour)
        expected[place] = gp.run(loaded, {"x": x}, backend="reference")["y"]
    computed(tmp_path / "all")
    for place, wanted in expected.items():
        (found,) = np.load(place / "found.npz").values()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=place.name)


def test_copies_that_nothing_is_joined_with_are_copies_alone(tmp_path):
    nodes = [node("Tile", ["x", "repeats"], ["many"]), node("MatMul", ["many", "w"], ["y"])]
    known = {"repeats": np.array([4, 1, 1]), "w": np.ones((3, 5), np.float32)}
    loaded = gp.load(write_onnx(tmp_path / "m.onnx", model(nodes, [typed("x", [1, 2, 3])], [("y", None)], known)))
    gp.save(loaded, tmp_path / "model", format="nnef", flavour="tract")
    text = (tmp_path / "model" / "graph.nnef").read_text()
    assert "tile(" in text
    assert "max(" not in text
