"""Reshape-1: what a pattern asks for, known before the run or not, of extents that are known or not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphport as gp
from graphport.core.dims import Symbol, bounds
from graphport.core.facts import OPEN
from graphport.formats.openvino.rules.reshape_by_pattern import target
from graphport.ops.declare import ShapeError
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

N = Symbol("N")
FEW = Symbol("N", 2, 4)
MORE = Symbol("N", 2, 8)


@pytest.mark.parametrize(
    ("source", "pattern", "special_zero", "expected"),
    [
        pytest.param((0, 3), (0, -1), True, (0, 3), id="copied zero does not count for -1"),
        pytest.param((2, 0, 3), (-1, 0), True, (6, 0), id="copied zero behind -1"),
        pytest.param((2, 0, 3), (0, -1), True, (2, 0), id="-1 of nothing"),
        pytest.param((2, 3), (), False, None, id="six elements are no scalar"),
        pytest.param((1, 1), (), False, (), id="one element is a scalar"),
        pytest.param((), (1,), False, (1,), id="a scalar has one element"),
        pytest.param((4, 4), (0, 2), True, None, id="copies that leave too many elements"),
        pytest.param((2, 3), (0, 4), True, None, id="copies that ask for too many elements"),
        pytest.param((2, 3), (3, 2, 0), True, None, id="a copy behind the last axis"),
        pytest.param((0, 3), (0, -1), False, None, id="-1 beside a literal zero"),
        pytest.param((2, 3), (-1, -1), False, None, id="two -1"),
        pytest.param((2, 3), (-2, 3), False, None, id="below -1"),
        pytest.param((7,), (2, -1), False, None, id="not divisible"),
        pytest.param((N, 3, 4), (0, -1), True, (N, 12), id="an open batch"),
        pytest.param((FEW, 3), (-1,), False, (FEW * 3,), id="an interval, joined"),
        pytest.param((MORE, 4), (-1, 8), False, (MORE // 2, 8), id="an interval, divided"),
        pytest.param(None, (0, -1), True, (OPEN, OPEN), id="a tensor of any rank"),
    ],
)
def test_pattern_asks_for(source, pattern, special_zero, expected):
    if expected is None:
        with pytest.raises(ShapeError):
            target(source, pattern, special_zero=special_zero)
    else:
        assert target(source, pattern, special_zero=special_zero).dims == expected


def test_intervals_are_kept():
    assert bounds(target((FEW, 3), (-1,), special_zero=False).dims[0]) == (6, 12)
    assert bounds(target((MORE, 4), (-1, 8), special_zero=False).dims[0]) == (1, 4)


def reference(shape, pattern, special_zero):
    """The document's reading of a static case; `None` for an error."""
    try:
        dims = target(tuple(shape), tuple(pattern), special_zero=special_zero).dims
    except ShapeError:
        return None
    # A rest that does not divide is an error, also of an empty tensor.
    return dims if np.prod(dims, dtype=object) == np.prod(shape, dtype=object) else None


@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    pattern=st.lists(st.integers(-2, 6), max_size=3),
    special_zero=st.booleans(),
    knows_shape=st.booleans(),
    backend=st.sampled_from(["onnxruntime", "reference"]),
)
def test_run_time_means_what_constants_mean(tmp_path_factory, shape, pattern, special_zero, knows_shape, backend):
    declared = ",".join(map(str, shape)) if knows_shape else ",".join("?" if n else "0.." for n in shape)
    for asked in (
        parameter("shape", str(len(pattern)), "i64"),
        constant("shape", np.array(pattern, np.int64), "int64"),
    ):
        layers = [
            parameter("data", declared),
            asked,
            Layer("y", "opset1.Reshape", {"special_zero": special_zero}, ["data", "shape"]),
        ]
        path = write_ir(tmp_path_factory.mktemp("ir"), layers, ["y"])
        inputs = {"data": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
        if isinstance(asked, Layer):
            inputs["shape"] = np.array(pattern, np.int64)
        expected = reference(shape, pattern, special_zero)
        if expected is None:
            with pytest.raises(gp.DiagnosticError):
                gp.run(gp.load(path), inputs, backend=backend)
        else:
            found = gp.run(gp.load(path), inputs, backend=backend)["y"]
            np.testing.assert_array_equal(found, inputs["data"].reshape(expected))


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize("count", [0, 2])
def test_extent_in_a_pattern_beside_a_copied_zero(tmp_path, backend, count):
    """[0, -1, the length of another tensor], of [count, 3, 4]."""
    layers = [
        parameter("data", "0..,3,4"),
        parameter("other", "?"),
        Layer("length", "opset3.ShapeOf", {"output_type": "i64"}, ["other"]),
        constant("open", np.array([0, -1], np.int64), "int64"),
        Layer("shape", "opset1.Concat", {"axis": 0}, ["open", "length"]),
        Layer("y", "opset1.Reshape", {"special_zero": True}, ["data", "shape"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    inputs = {"data": np.arange(count * 12, dtype=np.float32).reshape(count, 3, 4), "other": np.zeros(6, np.float32)}
    found = gp.run(gp.load(path), inputs, backend=backend)["y"]
    np.testing.assert_array_equal(found, inputs["data"].reshape(count, 2, 6))


@pytest.mark.parametrize("shape", ["", "1,2"])
def test_pattern_must_be_a_vector(shape, tmp_path):
    layers = [parameter("data", "2"), parameter("shape", shape, "i64")]
    layers.append(Layer("y", "opset1.Reshape", {"special_zero": "false"}, ["data", "shape"]))
    (finding,) = [f for f in gp.check(write_ir(tmp_path, layers, ["y"])) if f.is_error]
    assert finding.code == "SHAPE0001"
    assert "rank" in finding.message
    assert finding.span.line == 12
