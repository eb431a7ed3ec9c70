"""Every so many entries of what has been reshaped, which tract's own word for it fails over."""

from __future__ import annotations

import nnef
import numpy as np
import onnx
import pytest
import tract
from onnx import helper, numpy_helper

import graphport as gp
from tests.every import every

X = np.random.default_rng(3).normal(size=(6, 70)).astype(np.float32)


def model(path, shape, axis, start, end, step, *, between=None):
    given = {"shape": shape, "start": [start], "end": [end], "axis": [axis], "step": [step]}
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"])]
    nodes += [helper.make_node(between, ["r"], ["b"])] if between else []
    nodes += [helper.make_node("Slice", ["b" if between else "r", "start", "end", "axis", "step"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, X.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array(array, np.int64), name) for name, array in given.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return gp.load(path)


CASES = [
    ((6, 10, 7), 1, 0, 10, 2),
    ((6, 10, 7), 1, 1, 10, 3),
    ((6, 10, 7), 2, 0, 7, 2),
    ((6, 10, 7), 2, 6, 7, 4),
    ((6, 10, 7), 2, 0, 7, 6),
    ((6, 10, 7), 0, 2, 6, 3),
    ((420,), 0, 3, 400, 17),
    ((6, 10, 7), 1, -1, -99, -1),
    ((6, 10, 7), 2, -2, -99, -2),
]


@every("flavour", ["tract", "both"])
@every("between", [None, "Relu", "Transpose"])
@every("case", CASES)
def test_strides_after_a_reshape(tmp_path, case, between, flavour):
    shape, axis, start, end, step = case
    if between == "Transpose":
        axis = len(shape) - 1 - axis
    net = model(tmp_path / "a.onnx", shape, axis, start, end, step, between=between)
    gp.save(net, tmp_path / "n", format="nnef", flavour=flavour)
    expected = gp.run(net, {"x": X}, backend="reference")["y"]
    found = tract.nnef().load(str(tmp_path / "n")).into_runnable().run([X])[0].to_numpy()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(gp.run(gp.load(tmp_path / "n"), {"x": X}, backend="reference")["y"], expected)
    if flavour == "both":
        parsed = nnef.load_graph(str(tmp_path / "n"))
        nnef.infer_shapes(parsed)
        assert tuple(parsed.tensors["y"].shape) == expected.shape


def test_strides_of_an_input_stay_a_slice(tmp_path):
    graph = "x = external(shape = [6, 70]); y = slice(x, axes = [1], begin = [0], end = [70], stride = [2]);"
    (tmp_path / "graph.nnef").write_text(f"version 1.0;\ngraph g( x ) -> ( y )\n{{ {graph} }}\n")
    net = gp.load(tmp_path)
    for flavour in ("tract", "both"):
        gp.save(net, tmp_path / flavour, format="nnef", flavour=flavour)
        assert "stride = [2]" in (tmp_path / flavour / "graph.nnef").read_text()
        found = tract.nnef().load(str(tmp_path / flavour)).into_runnable().run([X])[0].to_numpy()
        np.testing.assert_array_equal(found, X[:, ::2])


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 0), (3, 2), (5, -5), (9, 9)])
def test_a_range_of_nothing_is_refused(tmp_path, start, end):
    # tract would read an end of 0 as that of the axis.
    graph = model(tmp_path / "m.onnx", (6, 70), 0, start, end, 1)
    with pytest.raises(gp.DiagnosticError, match="LEG0002"):
        gp.save(graph, tmp_path / "m.nnef", flavour="tract")
