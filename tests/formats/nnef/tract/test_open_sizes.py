"""Models with open sizes that tract 0.23.9 reads only in one of several equal forms."""

import numpy as np
import onnxruntime

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed
from tests.models import model, node, typed, write_onnx

LAST = {"last": np.array([-1]), "zero": np.array(0), "one": np.array(1)}


def causal(comparison, *, is_swapped=False):
    """Products of the columns of `x` where two ranges over its last axis compare, else -1."""
    nodes = [
        node("Shape", ["x"], ["n1"], start=1),
        node("Squeeze", ["n1"], ["n"]),
        node("Range", ["zero", "n", "one"], ["i"]),
        node("Unsqueeze", ["i", "last"], ["rows"]),
        node(comparison, ["i", "rows"] if is_swapped else ["rows", "i"], ["mask"]),
        node("Transpose", ["x"], ["tall"]),
        node("MatMul", ["tall", "x"], ["square"]),
        node("Where", ["mask", "square", "least"], ["y"]),
    ]
    known = {**LAST, "least": np.array(-1, np.float32)}
    return model(nodes, [typed("x", [2, "n"])], [("y", None)], known)


def resize(size, mode, dims=("n", 2, 3, 5)):
    """Resize the last two axes to constant sizes."""
    nodes = [
        node("Shape", ["x"], ["front"], end=2),
        node("Concat", ["front", "size"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, nearest_mode="floor"),
    ]
    return model(nodes, [typed("x", list(dims))], [("y", None)], {"size": np.array(size)})


def expand():
    """Expand an axis of size n // 2 to max(n // 2, 1), as the decomposition of `aten.expand` does."""
    nodes = [
        node("MaxPool", ["x"], ["half"], kernel_shape=[2], strides=[2]),
        node("Shape", ["half"], ["shape"]),
        node("Max", ["shape", "ones"], ["wanted"]),
        node("Expand", ["half", "wanted"], ["wide"]),
        node("Add", ["wide", "half"], ["y"]),
    ]
    return model(nodes, [typed("x", [1, 2, "n"])], [("y", None)], {"ones": np.ones(3, np.int64)})


def scalar():
    """Reshape a size to a scalar."""
    nodes = [
        node("Shape", ["x"], ["n1"], start=1),
        node("Reshape", ["n1", "none"], ["n"]),
        node("Cast", ["n"], ["size"], to=1),
        node("Div", ["x", "size"], ["y"]),
    ]
    return model(nodes, [typed("x", [2, "n"])], [("y", None)], {"none": np.zeros(0, np.int64)})


CASES = {
    **{f"{op}-{swap}": (causal(op, is_swapped=swap), (2, 3))
       for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual") for swap in (False, True)},
    "linear": (resize([7, 9], "linear"), (2, 2, 3, 5)),
    "cubic": (resize([7, 9], "cubic"), (2, 2, 3, 5)),
    "nearest, ties between elements": (resize([11, 4], "nearest"), (2, 2, 3, 5)),
    "constant sizes of open dims": (resize([7, 9], "linear", [1, 2, "h", "w"]), (1, 2, 4, 6)),
    "expand": (expand(), (1, 2, 6)),
    "scalar": (scalar(), (2, 3)),
}  # fmt: skip


def test_models_with_open_sizes_compute_equal_results(tmp_path):
    expected = {}
    for name, (network, dims) in CASES.items():
        place = tmp_path / "all" / name.replace(" ", "_")
        place.mkdir(parents=True)
        x = np.random.default_rng(len(name)).normal(size=dims).astype(np.float32)
        np.savez(place / "given.npz", x=x)
        path = write_onnx(tmp_path / "m.onnx", network)
        gp.save(gp.load(path), place / "model", format="nnef", flavour="tract")
        expected[place] = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    computed(tmp_path / "all")
    for place, wanted in expected.items():
        (found,) = np.load(place / "found.npz").values()
        assert found.shape == wanted.shape, place.name
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=place.name)
