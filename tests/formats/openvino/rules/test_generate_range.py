"""Range-1 and Range-4: exact results, equal for constant operands and for inputs."""

import math
from fractions import Fraction

import numpy as np
import openvino
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto

import graphport as gp
from graphport.core.dtypes import DType
from tests.every import every
from tests.formats.openvino.documents import NAMES, Layer, constant, parameter, write_ir
from tests.passes.cases import info, node
from tests.passes.cases import model as onnx_model

ROLES = ("start", "stop", "step")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def run(folder, operands, output_type, *, is_constant, op_type="opset4.Range", backend="onnxruntime"):
    """Return the result of a range of these arrays, or `None` for an error."""
    made = [
        constant(role, x, x.dtype) if is_constant else parameter(role, "", NAMES[x.dtype.name])
        for role, x in zip(ROLES, operands, strict=True)
    ]
    data = {} if output_type is None else {"output_type": NAMES[output_type]}
    path = write_ir(folder, [*made, Layer("y", op_type, data, ROLES)], ["y"])
    inputs = {} if is_constant else dict(zip(ROLES, operands, strict=True))
    try:
        return gp.run(gp.load(path), inputs, backend=backend)["y"]
    except gp.DiagnosticError:
        return None


TOO_LONG = 5000


def exact(operands, output_type):
    """Return the specified elements of an integral range, at most `TOO_LONG`; `None` for an error."""
    numbers = [float(x) if x.dtype.kind == "f" else int(x) for x in operands]
    if not all(map(math.isfinite, numbers)):
        return None
    start, stop, step = (math.trunc(x) for x in numbers)
    bits = np.dtype(output_type).itemsize * 8
    if step % (1 << bits) == 0:
        return None
    count = max(math.ceil(Fraction(stop - start, step)), 0)
    return [start + i * step for i in range(min(count, TOO_LONG))]


def wrap(numbers, dtype):
    return np.array([number % (1 << 64) for number in numbers], np.uint64).astype(dtype)


@st.composite
def short_ranges(draw):
    """Draw operands of any types and signs, also close to the limits of their types, for about 40 elements at most."""
    types = [draw(st.sampled_from([*INTEGERS, "float32", "float64"])) for _ in ROLES]
    step = draw(st.integers(-300, 300) | st.integers(-(1 << 62), 1 << 62))
    start = draw(st.integers(-200, 200) | st.integers(-(1 << 62), 1 << 62))
    stop = start + step * draw(st.integers(-3, 40)) + draw(st.integers(-5, 5))
    return [fitted(number, dtype) for number, dtype in zip((start, stop, step), types, strict=True)]


def fitted(number, dtype):
    if dtype.startswith("float"):
        return np.array(number + 0.5 if abs(number) < 1 << 20 else number, dtype)
    info = np.iinfo(dtype)
    return np.array(min(max(number, info.min), info.max), dtype)


@given(operands=short_ranges(), output_type=st.sampled_from(INTEGERS), is_constant=st.booleans())
def test_integral_ranges_are_exact(tmp_path_factory, operands, output_type, is_constant):
    expected = exact(operands, output_type)
    # Clamping to narrow types may move both limits far away.
    assume(expected is None or len(expected) < TOO_LONG)
    folder = tmp_path_factory.mktemp("ir")
    found = run(folder, operands, output_type, is_constant=is_constant)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, wrap(expected, output_type))


@every("is_constant", [True, False])
@every("backend", ["onnxruntime", "reference"])
@every(
    ("numbers", "dtype", "output_type", "expected"),
    [
        pytest.param((0, 300, 100), "int32", "int8", [0, 100, -56], id="wraps last"),
        pytest.param((0, 1000, 256), "int32", "int8", None, id="a step that wraps to 0"),
        pytest.param((0.0, 3.0, 0.5), "float32", "int32", None, id="a step that truncates to 0"),
        pytest.param((1.9, 5.9, 1.9), "float32", "int32", [1, 2, 3, 4], id="truncated first"),
        pytest.param((-1.9, 2.9, 1.5), "float32", "int32", [-1, 0, 1], id="towards zero"),
        pytest.param((0, 5, 0), "int32", "int32", None, id="no step"),
        pytest.param((3.0, 3.0, 0.0), "float32", "float32", None, id="no step and nowhere to go"),
        pytest.param((0.0, math.inf, 1.0), "float32", "float32", None, id="no end"),
        pytest.param((0.0, -math.inf, 1.0), "float32", "float32", None, id="no end the other way"),
        pytest.param((math.nan, 1.0, 1.0), "float32", "float32", None, id="no number to begin with"),
        pytest.param((0.0, 0.3, 0.1), "float32", "float32", [0.0, 0.1, 0.2, 0.3], id="counted in double"),
        pytest.param((0.0, 0.3, 0.1), "float64", "float64", [0.0, 0.1, 0.2], id="counted as double counts"),
        pytest.param((0.0, 1.0, 1e-9), "float64", "float16", None, id="a step that the result cannot hold"),
        pytest.param((2**53, 2**53 + 3, 1), "int64", "int64", [2**53, 2**53 + 1, 2**53 + 2], id="past the doubles"),
        pytest.param(
            (-(2**63), 2**63 - 1, 2**62), "int64", "int64", [-(2**63), -(2**62), 0, 2**62], id="from end to end"
        ),
        pytest.param(
            (2**63 - 1, -(2**63), -(2**62)), "int64", "int64", [2**63 - 1, 2**62 - 1, -1, -(2**62) - 1], id="and back"
        ),
        pytest.param((-(2**63), 5, -1), "int64", "int64", [], id="the least number, backwards"),
        pytest.param((5 - 2**63, -(2**63), -2), "int64", "int8", [5, 3, 1], id="down to the least number"),
        pytest.param((0, 7, -(2**63)), "int64", "int64", [], id="the widest step, the wrong way"),
        pytest.param((2**64 - 3, 2**64 - 1, 1), "uint64", "uint64", [2**64 - 3, 2**64 - 2], id="behind int64"),
        pytest.param((2**64 - 3, 7, 2**40 + 1), "uint64", "int32", [], id="back from behind int64"),
        pytest.param((7, 2**63 - 1, 2**63 + 5), "uint64", "uint64", [7], id="a step behind int64"),
        pytest.param((5.5, -1e30, 1.0), "float64", "int32", [], id="an end before int64"),
        pytest.param((5.5, -1e30, 1.0), "float64", "float32", [], id="an end that is far behind"),
        pytest.param((1e30, 0.0, 0.5), "float64", "float64", [], id="a begin that is far ahead"),
    ],
)
def test_corners(numbers, dtype, output_type, expected, is_constant, backend, tmp_path):
    operands = [np.array(number, dtype) for number in numbers]
    found = run(tmp_path, operands, output_type, is_constant=is_constant, backend=backend)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, np.array(expected, output_type), rtol=2e-7, atol=0)


def test_floating_point_numbers_do_not_drift(tmp_path):
    operands = [np.array(x, np.float32) for x in (0.0, 100.0, 0.1)]
    found = run(tmp_path, operands, "float32", is_constant=False)
    step = float(np.float32(0.1))
    np.testing.assert_array_equal(found, np.array([i * step for i in range(1000)], np.float32))


@pytest.mark.parametrize("types", [("int32", "int64", "int32"), ("float32", "float32", "int32")])
def test_range_of_set_1_takes_one_type(types, tmp_path):
    operands = [np.array(1, dtype) for dtype in types]
    assert run(tmp_path, operands, None, is_constant=False, op_type="opset1.Range") is None


def test_range_of_set_1_has_the_type_of_its_operands(tmp_path):
    operands = [np.array(x, np.int16) for x in (-3, 4, 2)]
    found = run(tmp_path, operands, None, is_constant=False, op_type="opset1.Range")
    assert found.dtype == np.int16
    assert found.tolist() == [-3, -1, 1, 3]


def test_oversized_tensors_are_an_error_without_allocation(tmp_path):
    operands = [np.array(x, np.int64) for x in (0, 10**12, 1)]
    assert run(tmp_path, operands, "int64", is_constant=True) is None


def test_length_is_an_expression_of_extents(tmp_path):
    layers = [
        parameter("x", "2..8,3"),
        Layer("shape", "opset3.ShapeOf", {"output_type": "i64"}, ["x"]),
        constant("zero", 0, "int64"),
        constant("one", 1, "int64"),
        Layer("n", "opset8.Gather", {"batch_dims": 0}, ["shape", "zero", "zero"]),
        Layer("y", "opset4.Range", {"output_type": "i64"}, ["zero", "n", "one"]),
    ]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    (length,) = model.outputs["y"].fact.shape
    assert length == model.inputs["x"].fact.shape[0]
    assert "Range" in [node.op for node in model.graph]
    assert model.outputs["y"].fact.dtype is DType.INT64


def test_what_is_known_of_an_end_is_a_constant(tmp_path):
    # OpenVINO computes no running sums of constants beforehand, and refuses a range up to one.
    nodes = [node("CumSum", "counts first", "sums"), node("ReduceMax", "sums", "end", keepdims=0)]
    nodes += [node("Range", "first end one", "places"), node("Add", "places x", "y")]
    constants = {"counts": np.array([1, 2, 3]), "first": np.array(0), "one": np.array(1)}
    net = onnx_model(
        nodes, [info("x", ("N", 1), TensorProto.INT64)], [info("y", None, TensorProto.INT64)], constants, opset=17
    )
    gp.save(gp.from_onnx(net), tmp_path / "net.xml")
    compiled = openvino.Core().compile_model(tmp_path / "net.xml", "CPU")
    x = np.array([[10], [20]])
    np.testing.assert_array_equal(next(iter(compiled([x]).values())), np.arange(6) + x)


@pytest.mark.parametrize(
    ("numbers", "output_type", "counts"),
    [
        pytest.param((0, 5, 1.5), "int32", (5, 4), id="a real step"),
        pytest.param((0.5, 3.0, 1.0), "int32", None, id="a real start that changes nothing"),
        pytest.param((0, 5, 1.5), "float32", None, id="a real result"),
        pytest.param((0, 5, 2), "int32", None, id="integers"),
        pytest.param((0, 4, 2.5), "int64", None, id="two by both readings"),
    ],
)
def test_the_two_readings_of_the_document_are_reported_apart(numbers, output_type, counts, tmp_path):
    operands = [np.array(x, np.float32) for x in numbers]
    made = [constant(role, x, x.dtype) for role, x in zip(ROLES, operands, strict=True)]
    data = {"output_type": NAMES[output_type]}
    path = write_ir(tmp_path, [*made, Layer("y", "opset4.Range", data, ROLES)], ["y"])
    found = [finding for finding in gp.check(path) if finding.code == "OV0113"]
    assert len(found) == (counts is not None)
    if counts is not None:
        assert not found[0].is_error
        assert f"has {counts[0]} elements" in found[0].message
        assert f"has {counts[1]}" in found[0].message
        assert len(gp.run(gp.load(path), {})["y"]) == counts[0]


def test_a_range_away_from_its_limit_is_empty(tmp_path):
    """OpenVINO's CPU plugin counts in either direction; a limit that is a dim needs no Maximum."""
    nodes = [
        node("Range", "two limit step", "up"),
        node("Range", "limit two back", "down"),
        node("Shape", "x", "shape"),
        node("Squeeze", "shape", "n"),
        node("Range", "zero n step", "indices"),
    ]
    known = {name: np.array(number) for name, number in (("two", 2), ("step", 1), ("back", -1), ("zero", 0))}
    inputs = [info("limit", [], TensorProto.INT64), info("x", ["n"])]
    outputs = [info(name, None, TensorProto.INT64) for name in ("up", "down", "indices")]
    gp.save(gp.from_onnx(onnx_model(nodes, inputs, outputs, known)), tmp_path / "m.xml")
    model = openvino.Core().read_model(tmp_path / "m.xml")
    assert [each.get_type_name() for each in model.get_ops()].count("Maximum") == 1
    compiled = openvino.Core().compile_model(model, "CPU")
    for limit in (-3, 1, 2, 4):
        found = compiled({"limit": np.array(limit), "x": np.zeros(3, np.float32)})
        for name, wanted in (("up", (2, limit)), ("down", (limit, 2, -1)), ("indices", (3,))):
            np.testing.assert_array_equal(found[name], np.arange(*wanted), err_msg=f"{name} {limit}")
