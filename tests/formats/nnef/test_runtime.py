"""tract, which is cannot be written as NNEF that says nothing it does not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import TensorFact
from graphport.formats.nnef import runtime as tract
from graphport.formats.nnef import runtime_process as witness
from graphport.runtimes.serve import Port
from tests.models import model as onnx_model
from tests.models import node, write_onnx

DIGITS = Path(tract.__file__).parents[2] / "examples" / "digits"
X = np.random.default_rng(3).normal(size=(2, 4, 6, 8)).astype(np.float32)


def model(folder: Path, call: str, *, shape="[2, 4, 6, 8]", outputs="y") -> gp.Model:
    text = f"graph net( x ) -> ( {outputs} )\n{{\n    x = external(shape = {shape});\n    {call};\n}}\n"
    (folder / "graph.nnef").write_text(f"version 1.0;\nextension KHR_enable_operator_expressions;\n{text}")
    return gp.load(folder)


def both(loaded: gp.Model, x=X) -> list[dict[str, np.ndarray]]:
    return [gp.run(loaded, {"x": x}, backend=name) for name in ("reference", "tract")]


def refusal(folder: Path, call: str) -> tuple[str, str]:
    with pytest.raises(DiagnosticError) as caught:
        gp.run(model(folder, call), {"x": X}, backend="tract")
    (finding,) = caught.value.diagnostics
    return finding.code, finding.message


@pytest.mark.parametrize(
    "call",
    [
        "y = rcp(x)",
        "y = rsqr(x)",
        "y = rsqrt(abs(x) + 1.0)",
        "y = silu(x)",
        "y = gelu(x)",
        "y = selu(x)",
        "y = select(lt(x, 0.0), x, sqr(x))",
        "[y, z] = split(x, axis = 1, ratios = [1, 3])",
        "[y, z] = unstack(x, axis = 0)",
        "[y, z] = copy_n(x, times = 2)",
        "y = add_n([x, x, x])",
        "y = nearest_upsample(x, factor = [2, 3])",
        "y = nearest_downsample(x, factor = [2, 4])",
        "y = area_downsample(x, factor = [3, 2])",
        "y = local_response_normalization(x, size = [1, 3, 1, 1], alpha = 0.5, beta = 0.75, bias = 2.0)",
        "y = slice(x, axes = [3], begin = [7], end = [1], stride = [-2])",
        "y = slice(x, axes = [3, 1], begin = [-1, 1], end = [0, 4], stride = [-3, 2])",
    ],
)
def test_what_tract_does_not_know_is_written_otherwise(tmp_path, call):
    loaded = model(tmp_path, call, outputs="y, z" if " z]" in call else "y")
    expected, found = both(loaded)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
        assert found[name].dtype == array.dtype


def test_the_shipped_model_runs_and_tells_every_value():
    loaded = gp.load(DIGITS)
    (name,) = loaded.inputs
    fact = loaded.inputs[name].fact
    assert isinstance(fact, TensorFact)
    image = np.random.default_rng(0).random([int(str(dim)) for dim in fact.dims], np.float32)
    expected, found = (gp.run(loaded, {name: image}, backend=each, every_value=True) for each in ("reference", "tract"))
    assert expected.keys() == found.keys()
    for key, array in expected.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5)


def test_dynamic_dims_are_bound_by_what_is_given(tmp_path):
    (tmp_path / "graph.nnef").write_text(
        "version 1.0\ngraph net( x ) -> ( y )\n{\n    x = external(shape = [0, 4])\n    y = relu(x)\n}\n"
    )
    loaded = gp.load(tmp_path)
    for length in (1, 3):
        x = np.ones((length, 4), np.float32)
        assert gp.run(loaded, {"x": x}, backend="tract")["y"].shape == (length, 4)


def test_interpolation_is_put_in_op_types_that_tract_knows(tmp_path):
    a, b = both(model(tmp_path, "y = multilinear_upsample(x, factor = [2, 3])"))
    np.testing.assert_allclose(b["y"], a["y"], rtol=1e-5, atol=1e-6)


def test_what_nnef_cannot_express_is_refused(tmp_path):
    code, message = refusal(tmp_path, "y = cast<scalar>(argmax_pool(x, size = [1, 1, 2, 2]))")
    assert code == "RUN0003"
    assert "cannot be written as NNEF" in message


def test_what_tract_is_known_not_to_take_is_refused(tmp_path):
    loaded = model(tmp_path, "y = slice(x, axes = [0], begin = [1999], end = [0], stride = [-1])", shape="[2000]")
    with pytest.raises(DiagnosticError, match=r"RUN0003.*does not accept slice: negative strides are not supported"):
        gp.run(loaded, {"x": np.zeros(2000, np.float32)}, backend="tract")


def test_inputs_of_numbers_that_tract_does_not_have_are_refused(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "net", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(proto, tmp_path / "net.onnx")
    with pytest.raises(DiagnosticError, match="float64"):
        gp.run(gp.load(tmp_path / "net.onnx"), {"x": np.ones(2)}, backend="tract")


def test_a_text_is_loaded_where_links_may_not_be_made(tmp_path, monkeypatch):
    """As on Windows, for most users."""

    def refuse(*_, **__):
        raise OSError(1314, "a required privilege is not held")

    text = tmp_path / "net.nnef"
    text.write_text("version 1.0;\ngraph net(x) -> (y)\n{\n x = external(shape = [2]);\n y = relu(x);\n}\n")
    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert witness._Runnable(str(text), 1).inputs == [Port("x")]


def safe_softmax(mask):
    """A softmax that is 0 in rows which a mask (`input`, `constant` or added by a `tensor`) removes, as PyTorch exports it."""
    low = np.array(-np.inf, np.float32)
    constants = {"low": low, "zero": np.float32(0), "last": np.array([-1])}
    inputs = [("s", [3, 4])]
    nodes = []
    if mask == "tensor":
        inputs.append(("m", [3, 4]))
        nodes.append(node("Add", ["s", "m"], ["a"]))
    else:
        rows = np.array([[True] * 4, [False] * 4, [True, False, True, False]])
        constants |= {"rows": rows} if mask == "constant" else {"half": np.float32(0.5)}
        inputs += [] if mask == "constant" else [("m", [3, 4])]
        nodes += [] if mask == "constant" else [node("Greater", ["m", "half"], ["rows"])]
        nodes += [node("Where", ["rows", "zero", "low"], ["w"]), node("Add", ["s", "w"], ["a"])]
    nodes += [
        node("ReduceMax", ["a", "last"], ["t"], keepdims=1),
        node("Equal", ["t", "low"], ["e"]),
        node("Softmax", ["a"], ["p"], axis=-1),
        node("Where", ["e", "zero", "p"], ["y"]),
    ]
    return gp.from_onnx(onnx_model(nodes, inputs, [("y", [3, 4])], constants, opset=18))


@pytest.mark.parametrize("mask", ["input", "constant", "tensor"])
def test_rows_that_a_mask_removes_are_zero(mask):
    model = safe_softmax(mask)
    s = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    rows = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]], np.float32)
    arrays = {"s": s} | ({} if mask == "constant" else {"m": rows})
    if mask == "tensor":
        with np.errstate(divide="ignore"):
            arrays["m"] = np.log(rows)
    powers = np.exp(s) * rows
    expected = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30)
    np.testing.assert_allclose(gp.run(model, arrays, backend="tract")["y"], expected, atol=1e-6)


@pytest.mark.parametrize(("op_type", "infinity"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_an_extreme_of_infinities_alone_is_infinite(op_type, infinity):
    constants = {"low": np.array([[1, infinity], [infinity, infinity]], np.float32), "axes": np.array([1])}
    nodes = [node("Add", ["x", "low"], ["a"]), node(op_type, ["a", "axes"], ["y"], keepdims=0)]
    model = gp.from_onnx(onnx_model(nodes, [("x", [2, 2])], [("y", [2])], constants, opset=18))
    found = gp.run(model, {"x": np.ones((2, 2), np.float32)}, backend="tract")["y"]
    assert found.tolist() == [2, infinity]


@pytest.mark.parametrize("between", ["", "LeakyRelu", "Identity", "Relu", "Sigmoid"])
@pytest.mark.parametrize("factors", [[1, 1, 2, 2], [1, 1, 1, 3]], ids=str)
def test_images_that_are_enlarged_after_a_convolution(between, factors):
    constants = {"w": X[0, :, :3, :3].reshape(4, 1, 3, 3), "scales": np.array(factors, np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], group=4)]
    nodes += [node(between, ["a"], ["b"])] if between else []
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes.append(node("Resize", ["b" if between else "a", "", "scales"], ["y"], **nearest))
    shape = [2, 4, 6 * factors[2], 8 * factors[3]]
    loaded = gp.from_onnx(onnx_model(nodes, [("x", [2, 4, 6, 8])], [("y", shape)], constants))
    one, other = both(loaded)
    np.testing.assert_allclose(other["y"], one["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("state_dtype", ["float32", "int64"])
def test_a_scan_over_a_constant(rank, state_dtype, tmp_path):
    points = np.random.default_rng(rank).normal(size=(4, 3, 2)[:rank]).astype(np.float32)
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, points.shape[1:])
    code = helper.np_dtype_to_tensor_dtype(np.dtype(state_dtype))
    state = [helper.make_tensor_value_info(name, code, [2]) for name in ("s", "t")]
    total = helper.make_tensor_value_info("o", TensorProto.FLOAT, points.shape[1:])
    nodes = [
        node("Add", ["s", "s"], ["t"]),
        node("Cast", ["s"], ["f"], to=1),
        node("ReduceSum", ["f"], ["k"], keepdims=0),
    ]
    body = helper.make_graph([*nodes, node("Mul", ["row", "k"], ["o"])], "body", [state[0], row], [state[1], total])
    scan = node("Scan", ["x", "points"], ["last", "y"], num_scan_inputs=1, body=body)
    inputs = [helper.make_tensor_value_info("x", code, [2])]
    outputs = [helper.make_tensor_value_info("last", code, [2]), ("y", list(points.shape))]
    proto = onnx_model([scan], inputs, outputs, {"points": points}, opset=18)
    report = gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.nnef.tgz")
    assert report.passed
    assert str(report.proof).startswith("verified:")
    assert "tract on net.nnef.tgz agree" in str(report.proof)
