"""Softmaxes as PyTorch's exporter guards them, which ncnn computes without the guard where nothing masks the scores."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.ncnn.graph_passes.masked_rows import drop_guards
from tests.models import model, node, write_onnx

RANDOM = np.random.default_rng(0)
SHAPE = [1, 2, 5, 4]


def attention(*steps, constants=None, inputs=()):
    """Scores of `q` and `k`, changed by `steps` from `a` to `b`, their guarded shares, and what they take of `v`."""
    nodes = [
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["a"]),
        *(steps or [node("Mul", ["a", "half"], ["b"])]),
        node("Softmax", ["b"], ["s"], axis=-1),
        node("IsNaN", ["s"], ["n"]),
        node("Where", ["n", "zero", "s"], ["g"]),
        node("MatMul", ["g", "v"], ["y"]),
    ]
    told = {"half": np.float32(0.5), "zero": np.float32(0), **(constants or {})}
    return model(nodes, [*((name, SHAPE) for name in "qkv"), *inputs], [("y", SHAPE)], told)


def test_a_guard_of_scores_that_nothing_masks_goes(tmp_path):
    pytest.importorskip("ncnn")
    report = gp.convert(write_onnx(tmp_path / "net.onnx", attention()), tmp_path / "net.param")
    assert report.passed
    assert any(each.runtime == "ncnn" and each.ran for each in report.proof.witnesses)


@pytest.mark.parametrize(
    ("proto", "count"),
    [
        pytest.param(attention(), 1, id="scaled"),
        pytest.param(
            attention(node("Add", ["a", "m"], ["b"]), constants={"m": np.full([5, 5], -1e9, np.float32)}),
            1,
            id="a finite mask",
        ),
        pytest.param(attention(node("Log", ["a"], ["b"])), 0, id="logarithms"),
    ],
)
def test_where_scores_may_be_infinite_it_stays(tmp_path, proto, count):
    model_ = gp.from_onnx(proto)
    before = len(list(model_.graph))
    assert drop_guards(model_.graph) == count
    assert len(list(model_.graph)) == before - 2 * count
    if not count:
        with pytest.raises(DiagnosticError, match="do not preserve NaN"):
            gp.save(model_, tmp_path / "net.param", format="ncnn")


MASK = np.where(np.tri(5, k=-1), 0, -np.inf).astype(np.float32)
"""A causal mask that masks all elements of the first row."""


def masked_by(**attributes):
    """Attention whose scores are products of a mask of -inf, which may become +inf or NaN."""
    return attention(node(attributes.pop("op"), ["m", "a"], ["b"]), constants={"m": MASK})


def test_a_constant_mask_is_written_without_nan(tmp_path):
    ncnn = pytest.importorskip("ncnn")
    assert ncnn
    source = write_onnx(tmp_path / "net.onnx", masked_by(op="Add"))
    report = gp.convert(source, tmp_path / "net.param")
    assert report.passed
    assert any(each.runtime == "ncnn" and each.ran for each in report.proof.witnesses)


def test_a_mask_that_is_an_input_may_hold_minus_infinity():
    pytest.importorskip("ncnn")
    found = gp.from_onnx(attention(node("Add", ["a", "m"], ["b"]), inputs=[("m", [5, 5])]))
    inputs = {name: RANDOM.normal(size=SHAPE).astype(np.float32) for name in "qkv"} | {"m": MASK}
    (y,) = gp.run(found, inputs, backend="ncnn").values()
    (expected,) = gp.run(found, inputs, backend="onnxruntime").values()
    assert not expected[..., 0, :].any(), "the mask leaves no element of the first row"
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("op", ["Sub", "Mul"])
def test_a_mask_that_may_become_infinite_is_refused(tmp_path, op):
    with pytest.raises(DiagnosticError, match="do not preserve NaN"):
        gp.save(gp.from_onnx(masked_by(op=op)), tmp_path / "net.param", format="ncnn")


def test_scores_are_followed_so_far_and_no_farther():
    for count, is_seen in ((63, 1), (64, 0)):
        steps = [
            node("Transpose", [f"t{n}" if n else "a"], [f"t{n + 1}" if n + 1 < count else "b"], perm=[0, 1, 3, 2])
            for n in range(count)
        ]
        assert drop_guards(gp.from_onnx(attention(*steps)).graph) == is_seen


def test_shares_that_are_returned_stay_guarded():
    proto = attention()
    proto.graph.output.extend([onnx_value("g")])
    assert drop_guards(gp.from_onnx(proto).graph) == 0


def onnx_value(name):
    return model([node("Relu", ["x"], [name])], [("x", [1, 2, 5, 5])], [(name, [1, 2, 5, 5])]).graph.output[0]
