"""If without control flow: both branches are computed, and the result of the unselected one has no effect."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.models import model, node, write_onnx

pytest.importorskip("ncnn")

TWO, ZERO = np.float32(2), np.float32(0)
BELOW = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"])]
GIVEN = [np.array([[1, 2, -3, 4]], np.float32), np.array([[-1, 2, -3, -4]], np.float32)]


def body(nodes, *results, **constants):
    """A branch whose results are named with their shapes."""
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in results]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return helper.make_graph(nodes, "body", [], outputs, tensors)


def branching(then_branch, else_branch, before=(), results=("y",)):
    chosen = helper.make_node("If", ["c"], list(results), then_branch=then_branch, else_branch=else_branch)
    outputs = [(name, None) for name in results]
    return model([*BELOW, *before, chosen], [("x", [1, 4])], outputs, {"zero": ZERO, "two": TWO}, opset=18)


def doubled(name="t"):
    return body([node("Mul", ["x", "two"], [name])], (name, [1, 4]))


LOGARITHMS = branching(
    body(
        [node("Log", ["s"], ["l"]), node("Mul", ["x", "l"], ["t"]), node("Neg", ["x"], ["u"])],
        ("t", [1, 4]),
        ("u", [1, 4]),
    ),
    body([node("Exp", ["x"], ["e"]), node("Identity", ["x"], ["v"])], ("e", [1, 4]), ("v", [1, 4])),
    results=("y", "z"),
)
INNER = helper.make_node(
    "If", ["d"], ["n"], then_branch=doubled("i"), else_branch=body([node("Abs", ["x"], ["a"])], ("a", [1, 4]))
)
NESTED = branching(
    body([node("Greater", ["s", "two"], ["d"]), INNER], ("n", [1, 4])), body([node("Exp", ["x"], ["e"])], ("e", [1, 4]))
)


@pytest.mark.parametrize("proto", [pytest.param(LOGARITHMS, id="no number there"), pytest.param(NESTED, id="nested")])
@pytest.mark.parametrize("suffix", ["ncnn.param", "pnnx.param"])
def test_written_if_selects_the_branch_at_run_time(tmp_path, proto, suffix):
    source = write_onnx(tmp_path / "net.onnx", proto)
    assert gp.convert(source, tmp_path / f"net.{suffix}").passed
    again = gp.load(tmp_path / f"net.{suffix}")
    backend = "ncnn" if suffix.startswith("ncnn") else "reference"
    for x in GIVEN:
        expected = gp.run(gp.load(source), {"x": x}, backend="onnxruntime")
        found = gp.run(again, dict(zip(again.inputs, [x], strict=True)), backend=backend)
        for name, array in zip(expected, found.values(), strict=True):
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def test_constant_condition_writes_only_its_branch(tmp_path):
    proto = branching(doubled(), body([node("Concat", ["x", "x"], ["e"], axis=1)], ("e", [1, 8])))
    proto.graph.node[-1].input[0] = "always"
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
    gp.save(gp.from_onnx(proto), tmp_path / "net.ncnn.param")
    text = (tmp_path / "net.ncnn.param").read_text()
    assert "BinaryOp" in text
    assert "Concat" not in text


FAILING = branching(
    body([node("Gather", ["x", "k"], ["t"], axis=1)], ("t", [1])),
    body([node("ReduceMax", ["x", "ax"], ["e"], keepdims=0)], ("e", [1]), ax=np.array([1])),
    [helper.make_node("Cast", ["s"], ["k"], to=TensorProto.INT64)],
)
UNEVEN = branching(doubled(), body([node("Concat", ["x", "x"], ["e"], axis=1)], ("e", [1, 8])))


@pytest.mark.parametrize(
    ("proto", "reason"),
    [(FAILING, "Gather can fail in the branch that is not selected"), (UNEVEN, r"\[1, 4\] and float32\[1, 8\]")],
)
@pytest.mark.parametrize("suffix", ["ncnn.param", "pnnx.param"])
def test_branches_that_are_no_choice_between_numbers_are_refused(tmp_path, proto, reason, suffix):
    with pytest.raises(DiagnosticError, match=reason) as caught:
        gp.save(gp.from_onnx(proto), tmp_path / f"net.{suffix}")
    (finding,) = caught.value.diagnostics
    assert "If" in finding.message
    assert "models of their own" in (finding.help or "")
