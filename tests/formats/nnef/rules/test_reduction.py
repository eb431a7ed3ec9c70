"""Reductions in NNEF: their semantics, and equal results after an export."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.reduction import (
    ArgMax,
    CumProd,
    CumSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)
from tests.every import every
from tests.ops.facts import single
from tests.ops.oracle import compare, run_word, there_and_back
from tests.passes.cases import info, model, node

OP_DEFS = registry.op_defs()
X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32) * 3
L = np.random.default_rng(1).integers(0, 2, (2, 3, 4)).astype(bool)
AXES = [(0,), (1,), (2,), (0, 2), (2, 0), (0, 1, 2), ()]


@every("axes", AXES)
@every("symbolic", [False, True])
@every(
    ("op_type", "function"),
    [("mean_reduce", np.mean), ("max_reduce", np.max), ("min_reduce", np.min), ("sum_reduce", np.sum)],
)
def test_reduction_keeps_its_axes(op_type, function, axes, symbolic):
    attributes: dict[str, Any] = {"normalize": False} if op_type == "sum_reduce" else {}
    found = run_word("nnef", op_type, [X], symbolic=symbolic, axes=axes, **attributes)[0]
    compare(found, np.asarray(function(X, axis=axes, keepdims=True)), tolerance=1e-5)


@pytest.mark.parametrize("axes", AXES)
def test_normalized_sum_is_the_mean(axes):
    found = run_word("nnef", "sum_reduce", [X], axes=axes, normalize=True)[0]
    compare(found, np.mean(X, axis=axes, keepdims=True), tolerance=1e-5)


@pytest.mark.parametrize("axes", AXES)
def test_logical_reductions(axes):
    compare(run_word("nnef", "all_reduce", [L], axes=axes)[0], np.all(L, axis=axes, keepdims=True))
    compare(run_word("nnef", "any_reduce", [L], axes=axes)[0], np.any(L, axis=axes, keepdims=True))


@pytest.mark.parametrize("axes", AXES)
def test_moments_are_mean_and_variance(axes):
    mean, variance = run_word("nnef", "moments", [X], outputs=2, axes=axes)
    compare(mean, np.mean(X, axis=axes, keepdims=True), tolerance=1e-5)
    compare(variance, np.var(X, axis=axes, keepdims=True), tolerance=1e-5)


@pytest.mark.parametrize("axes", [axes for axes in AXES if axes])
@pytest.mark.parametrize("symbolic", [False, True])
def test_place_over_several_axes_counts_in_row_major_order(axes, symbolic):
    order = sorted(axes)
    moved = np.moveaxis(X, order, range(-len(order), 0))
    flat = moved.reshape(*moved.shape[: 3 - len(order)], -1)
    for op_type, function in (("argmax_reduce", np.argmax), ("argmin_reduce", np.argmin)):
        found = run_word("nnef", op_type, [X], symbolic=symbolic, axes=axes)[0]
        compare(found, np.expand_dims(function(flat, axis=-1), tuple(order)))


def test_place_over_no_axis_is_refused():
    with pytest.raises(UnsupportedError, match="argmax_reduce without axes"):
        run_word("nnef", "argmax_reduce", [X], axes=())


STATED = {
    "ReduceSum": "sum_reduce", "ReduceMean": "mean_reduce", "ReduceMax": "max_reduce", "ReduceMin": "min_reduce",
    "ReduceL1": "sum_reduce", "ReduceL2": "sum_reduce", "ReduceLogSum": "sum_reduce", "ReduceLogSumExp": "sum_reduce",
    "ReduceSumSquare": "sum_reduce",
}  # fmt: skip


@every("name", STATED)
@every("axes", [None, (1,), (-1, 0), ()])
@every("keepdims", [0, 1])
@every("noop", [0, 1])
def test_exporting_a_reduction_preserves_its_semantics(name, axes, keepdims, noop):
    x = np.abs(X) + 1
    operands = [x, None if axes is None else np.array(axes, np.int64)]
    words = there_and_back(
        OP_DEFS[name],
        operands,
        constants=(1,),
        keepdims=keepdims,
        noop_with_empty_axes=noop,
        symbolic=True,
        tolerance=1e-5,
    )
    assert words is not None
    assert STATED[name] in words


def test_exporting_log_sum_exp_does_not_overflow():
    assert there_and_back(ReduceLogSumExp, [single([[500, 501], [-500, -501]]), np.array([1])], constants=(1,))


def test_exporting_logical_extremes():
    for op_def, op_type in ((ReduceMax, "any_reduce"), (ReduceMin, "all_reduce")):
        assert there_and_back(op_def, [L, np.array([1])], constants=(1,)) == [op_type]


def test_axes_that_are_computed_cannot_be_expressed():
    assert there_and_back(ReduceSum, [X, np.array([1])]) is None
    assert there_and_back(ReduceProd, [X, np.array([1])]) is None
    assert there_and_back(CumSum, [X, np.array(1)]) is None


@every("axes", [(1,), (0, -1), ()])
@every("keepdims", [0, 1])
@every("length", [1, 2, 3, 7])
def test_products_are_built_from_float16_values(length, axes, keepdims):
    x = np.random.default_rng(length).normal(size=(2, length, 4)).astype(np.float32)
    found = there_and_back(ReduceProd, [x, np.array(axes, np.int64)], constants=(1,), keepdims=keepdims, tolerance=1e-5)
    assert found is not None
    assert found.count("mul") <= 8


@pytest.mark.parametrize("op_def", [CumSum, CumProd])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_and_products_are_made_by_doubling(op_def, exclusive, reverse):
    settings: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse, "constants": (1,), "tolerance": 1e-5}
    for length in (1, 2, 5, 8):
        x = np.random.default_rng(length).normal(size=(2, length, 3)).astype(np.float32)
        assert there_and_back(op_def, [x, np.array(1)], **settings)
        # Elements after an infinite one are infinite, those before it are not.
        x[0, length // 2, 0] = np.inf
        assert there_and_back(op_def, [x, np.array(-2)], **settings)


def test_integers_have_no_products_there():
    assert there_and_back(ReduceProd, [L.astype(np.int64), np.array([1])], constants=(1,)) is None
    assert there_and_back(CumSum, [L.astype(np.int64), np.array(1)], constants=(1,)) is None


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_exporting_the_place_of_an_extreme_preserves_its_semantics(keepdims, axis):
    assert there_and_back(ArgMax, [X], axis=axis, keepdims=keepdims, symbolic=True)
    assert there_and_back(OP_DEFS["ArgMin"], [X], axis=axis, keepdims=keepdims)
    assert there_and_back(ArgMax, [X], axis=axis, select_last_index=1) is None


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("op", "infinity"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_an_extreme_of_masked_elements_alone_is_infinite(tmp_path, op, infinity, keepdims):
    """tract returns the finite number next to infinity for them."""
    nodes = [node("Where", "c x i", "m"), node(op, "m axes", "y", keepdims=keepdims)]
    constants = {"i": np.float32(infinity), "axes": np.array([2], np.int64)}
    inputs = [info("x", X.shape), info("c", L.shape, TensorProto.BOOL)]
    proto = model(nodes, inputs, [info("y", None)], constants, opset=20)
    path = tmp_path / "m.nnef.tgz"
    gp.save(gp.from_onnx(proto), path, format="nnef")
    mask = L.copy()
    mask[0, 1] = False
    reduce = np.max if op == "ReduceMax" else np.min
    expected = reduce(np.where(mask, X, np.float32(infinity)), axis=2, keepdims=bool(keepdims))
    (found,) = gp.run(gp.load(path), {"x": X, "c": mask}).values()
    assert np.isinf(expected).any()
    compare(found, expected)
