"""Operators between DequantizeLinear and QuantizeLinear are written as TFLite's integer operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.draws import spread
from tests.every import every
from tests.formats.tflite.test_cases import CASES as CASES_OF_FILES

if TYPE_CHECKING:
    from pathlib import Path

X, SAME, OTHER = (0.05, 3), (0.05, 3), (0.08, -11)
CASES: dict[str, dict[str, Any]] = {
    "CONV_2D": {"op": "Conv", "shapes": [(1, 3, 7, 6)], "w": (4, 3, 3, 3), "b": 4, "pads": [1, 1, 1, 1]},
    "CONV_2D relu": {"op": "Conv", "shapes": [(1, 3, 8, 6)], "w": (4, 3, 3, 3), "b": 4, "behind": "Relu"}
    | {"pads": [1, 1, 1, 1], "strides": [2, 2]},
    "CONV_2D clip": {"op": "Conv", "shapes": [(1, 3, 8, 6)], "w": (4, 3, 1, 1), "b": 4, "behind": "Relu6"},
    "CONV_2D uint8": {"op": "Conv", "shapes": [(1, 3, 8, 6)], "w": (4, 3, 3, 3), "b": 4, "dtype": np.uint8},
    "DEPTHWISE_CONV_2D": {"op": "Conv", "shapes": [(1, 4, 7, 6)], "w": (4, 1, 3, 3), "b": 4, "group": 4},
    "CONV_2D of a signal": {"op": "Conv", "shapes": [(1, 3, 20)], "w": (4, 3, 3), "b": 4, "pads": [1, 1]}
    | {"behind": "Relu"},
    "DEPTHWISE_CONV_2D of a signal": {"op": "Conv", "shapes": [(1, 4, 20)], "w": (4, 1, 3), "b": 4, "group": 4},
    "FULLY_CONNECTED": {"op": "Gemm", "shapes": [(3, 8)], "w": (5, 8), "b": 5, "transB": 1},
    "FULLY_CONNECTED no bias": {"op": "MatMul", "shapes": [(3, 8)], "w": (8, 5), "axis": 1},
    "ADD": {"op": "Add", "shapes": [(2, 3, 4), (1, 3, 4)]},
    "ADD relu": {"op": "Add", "shapes": [(2, 3, 4), (2, 3, 4)], "behind": "Relu"},
    "MUL": {"op": "Mul", "shapes": [(2, 3, 4), (4,)]},
    "MAX_POOL_2D": {"op": "MaxPool", "shapes": [(1, 3, 6, 6)], "out": SAME, "kernel_shape": [2, 2], "strides": [2, 2]},
    "AVERAGE_POOL_2D": {"op": "AveragePool", "shapes": [(1, 3, 6, 6)], "out": SAME, "kernel_shape": [3, 3]},
    "CONCATENATION": {"op": "Concat", "shapes": [(2, 3), (2, 4)], "out": SAME, "axis": 1},
    "CONV_2D clip to the range": {"op": "Conv", "shapes": [(1, 3, 8, 6)], "w": (4, 3, 1, 1), "b": 4, "behind": "Relu6"}
    | {"out": (6 / 255, -128)},
    "RELU": {"op": "Relu", "shapes": [(2, 3, 4)]},
    "SUB": {"op": "Sub", "shapes": [(2, 3, 4), (1, 3, 4)]},
    "LOGISTIC": {"op": "Sigmoid", "shapes": [(2, 30)], "out": (1 / 256, -128)},
    "SOFTMAX": {"op": "Softmax", "shapes": [(3, 6)], "out": (1 / 256, -128)},
    "TANH": {"op": "Tanh", "shapes": [(2, 30)], "out": (1 / 128, 0)},
    "LEAKY_RELU": {"op": "LeakyRelu", "shapes": [(2, 30)], "alpha": 0.3},
    "HARD_SWISH": {"op": "HardSwish", "shapes": [(2, 30)], "out": (0.06, -100)},
    "ELU": {"op": "Elu", "shapes": [(2, 30)], "alpha": 1.0},
    "MEAN": {"op": "GlobalAveragePool", "shapes": [(1, 40, 3, 3)], "out": (0.03, 0)},
    "BATCH_MATMUL": {"op": "MatMul", "shapes": [(2, 3, 4), (2, 4, 5)], "out": (0.6, 0)},
    "RESIZE_BILINEAR": {"op": "Resize", "shapes": [(1, 3, 4, 4)], "out": SAME, "mode": "linear", "scales": 2},
    "PADV2": {"op": "MaxPool", "shapes": [(1, 3, 6, 6)], "out": SAME, "kernel_shape": [3, 3], "strides": [2, 2]}
    | {"pads": [1, 1, 1, 1]},
    "ABS": {"op": "Abs", "shapes": [(2, 30)]},
    "EXP": {"op": "Exp", "shapes": [(2, 30)], "out": (0.3, -100)},
    "ABS int16": {"op": "Abs", "shapes": [(2, 30)]},
    "CONV_2D int16": {"op": "Conv", "shapes": [(1, 3, 7, 6)], "w": (4, 3, 3, 3), "b": 4, "pads": [1, 1, 1, 1]},
    "DEPTHWISE_CONV_2D int16": {"op": "Conv", "shapes": [(1, 4, 7, 6)], "w": (4, 1, 3, 3), "b": 4, "group": 4},
    "FULLY_CONNECTED int16": {"op": "Gemm", "shapes": [(3, 8)], "w": (5, 8), "b": 5, "transB": 1, "behind": "Relu"},
    "ADD int16": {"op": "Add", "shapes": [(2, 3, 4), (1, 3, 4)]},
    "SUB int16": {"op": "Sub", "shapes": [(2, 3, 4), (1, 3, 4)]},
    "MUL int16": {"op": "Mul", "shapes": [(2, 3, 4), (4,)]},
    "MEAN int16": {"op": "GlobalAveragePool", "shapes": [(1, 40, 3, 3)], "out": (0.03, 0)},
    "MAX_POOL_2D int16": {"op": "MaxPool", "shapes": [(1, 3, 6, 6)], "out": SAME, "kernel_shape": [2, 2]},
    "CONCATENATION int16": {"op": "Concat", "shapes": [(2, 3), (2, 4)], "out": SAME, "axis": 1},
}
for name, case in CASES.items():
    case["dtype"] = np.int16 if name.endswith("int16") else case.get("dtype", np.int8)
FLOAT = {
    "AVERAGE_POOL_2D": CASES["AVERAGE_POOL_2D"] | {"out": OTHER},
    "CONCATENATION": CASES["CONCATENATION"] | {"out": OTHER},
    "CONV_2D": CASES["CONV_2D"] | {"is_shown": True},
    "LOGISTIC": CASES["LOGISTIC"] | {"out": (1 / 128, -128)},
    "ADD": CASES["ADD"] | {"behind": "Relu", "dtype": np.int16, "zero": 5},
}
OWN = ("op", "shapes", "w", "b", "behind", "dtype", "out", "is_shown", "scales", "zero")


def stored(name: str, shape: tuple[int, ...], told: dict[str, Any], random: np.random.Generator) -> list[Any]:
    """Constants in int8 with scales along an axis."""
    axis = told.get("axis", 0) if len(shape) > 1 else None
    dtype, limit = (np.int8, 127) if len(shape) > 1 else (np.int32, 3000)
    count = shape[axis or 0]
    scales = random.uniform(0.004, 0.02, count) if axis is not None else 0.0005
    told[f"{name} axis"] = axis
    return [
        numpy_helper.from_array(random.integers(-limit, limit + 1, shape).astype(dtype), name),
        numpy_helper.from_array(np.asarray(scales, np.float32), f"{name}_s"),
        numpy_helper.from_array(np.zeros(np.shape(scales), dtype), f"{name}_z"),
    ]


def grid(told: tuple[float, int], dtype: Any) -> tuple[Any, Any]:
    """Return scale and zero point: for int16 the scale is divided by 256 and the zero point is 0."""
    scale, zero = told
    if dtype is np.int16:
        return np.asarray(scale / 256, np.float32), np.asarray(0, dtype)
    return np.asarray(scale, np.float32), np.asarray(zero + 128 * (dtype is np.uint8)).astype(dtype)


def model(path: Path, case: dict[str, Any]) -> dict[str, np.ndarray]:
    """A file with one operator between integers, and what to run it with."""
    random, dtype = np.random.default_rng(7), case.get("dtype", np.int8)
    nodes, inits, told, reals, feeds = [], [], dict(case), [], {}
    for index, shape in enumerate(case["shapes"]):
        pair = tuple(
            numpy_helper.from_array(each, f"{name}{index}") for name, each in zip("sz", grid(X, dtype), strict=True)
        )
        inits += pair
        nodes.append(helper.make_node("QuantizeLinear", [f"x{index}", pair[0].name, pair[1].name], [f"q{index}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{index}", pair[0].name, pair[1].name], [f"d{index}"]))
        reals.append(f"d{index}")
        feeds[f"x{index}"] = random.uniform(-6, 6, shape).astype(np.float32)
    for name in ("w", "b"):
        if name in case:
            shape = case[name] if name == "w" else (case[name],)
            inits += stored(name, shape, told, random)
            axis = told[f"{name} axis"]
            names = [name, f"{name}_s", f"{name}_z"]
            nodes.append(helper.make_node("DequantizeLinear", names, [f"d{name}"], axis=0 if axis is None else axis))
            reals.append(f"d{name}")
    if "scales" in case:
        inits.append(numpy_helper.from_array(np.array([1, 1, case["scales"], case["scales"]], np.float32), "scales"))
        reals += ["", "scales"]
    own = {key: value for key, value in case.items() if key not in OWN and not (key == "axis" and "w" in case)}
    nodes.append(helper.make_node(case["op"], reals, ["y"], **own))
    value = "y"
    if "behind" in case:
        limits = ["zero", "six"] if case["behind"] == "Relu6" else []
        inits += [numpy_helper.from_array(np.asarray(n, np.float32), k) for n, k in ((0, "zero"), (6, "six"))]
        nodes.append(helper.make_node("Clip" if limits else case["behind"], [value, *limits], ["r"]))
        value = "r"
    scale, zero = grid(case.get("out", OTHER), dtype)
    zero += dtype(case.get("zero", 0))
    inits += [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(np.asarray(zero), "z")]
    nodes.append(helper.make_node("QuantizeLinear", [value, "s", "z"], ["q"]))
    nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["out"]))
    outputs = ["out", value] if case.get("is_shown") else ["out"]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, feed.shape) for name, feed in feeds.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        inits,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return feeds


def types(path: Path, op_type: str) -> list[str]:
    """The element types that an operator of a file reads first."""
    raw = gp.load(path, raw=True)
    return [str(node.operands[0].fact).split("[")[0] for node in raw.graph if node.op_type == op_type]


@every("name", spread(list(CASES)))
def test_an_operator_between_integers_is_an_integer_operator(name: str, tmp_path: Path) -> None:
    feeds = model(tmp_path / "m.onnx", CASES[name])
    source = gp.load(tmp_path / "m.onnx")
    gp.save(source, tmp_path / "m.tflite")
    dtype = CASES[name]["dtype"]
    op_type = name.split(" ", maxsplit=1)[0]
    assert set(types(tmp_path / "m.tflite", op_type)) == {"int16" if dtype is np.int16 else "int8"}
    expected = gp.run(source, feeds, backend="reference")["out"]
    scale, _ = grid(CASES[name].get("out", OTHER), dtype)
    assert np.ptp(expected) > 10 * scale
    for backend in ("auto", "litert"):
        found = gp.run(gp.load(tmp_path / "m.tflite"), feeds, backend=backend)["out"]
        assert np.abs(found - expected).max() <= 1.01 * scale, backend


ROUNDED_TWICE = ("CONV_2D int16", "DEPTHWISE_CONV_2D int16", "MEAN int16")
"""What the kernels of int16 round otherwise, which their reading says: within a step."""


@every("name", spread(list(CASES), start=1))
def test_integers_that_come_back_from_a_file_are_the_same(name: str, tmp_path: Path) -> None:
    """ONNX to TFLite and back: equal results if the file can represent the bias, and equal op types."""
    feeds = model(tmp_path / "m.onnx", CASES[name])
    if "b" in CASES[name]:
        proto = onnx.load(tmp_path / "m.onnx")
        told = {each.name: each for each in proto.graph.initializer}
        steps = numpy_helper.to_array(told["w_s"]) * numpy_helper.to_array(told["s0"])
        told["b_s"].CopyFrom(numpy_helper.from_array(steps.astype(np.float32), "b_s"))
        told["b_z"].CopyFrom(numpy_helper.from_array(np.zeros(len(steps), np.int32), "b_z"))
        onnx.save(proto, tmp_path / "m.onnx")
    source = gp.load(tmp_path / "m.onnx")
    gp.save(source, tmp_path / "m.tflite")
    gp.save(gp.load(tmp_path / "m.tflite"), tmp_path / "back.onnx")
    back = gp.load(tmp_path / "back.onnx")
    one, other = (gp.run(each, feeds, backend="reference")["out"] for each in (source, back))
    scale, _ = grid(CASES[name].get("out", OTHER), CASES[name]["dtype"])
    assert np.abs(one - other).max() <= (1.01 * scale if name in ROUNDED_TWICE else 0)
    gp.save(back, tmp_path / "again.tflite")
    files = (tmp_path / "m.tflite", tmp_path / "again.tflite")
    words = [[each.op_type for each in gp.load(file, raw=True).graph] for file in files]
    assert words[0] == words[1] or name == "MEAN int16"


@pytest.mark.parametrize("name", FLOAT)
def test_operators_without_integer_kernel_stay_float(name: str, tmp_path: Path) -> None:
    """A different scale after a pooling or a concatenation; a float value with another consumer."""
    feeds = model(tmp_path / "m.onnx", FLOAT[name])
    source = gp.load(tmp_path / "m.onnx")
    gp.save(source, tmp_path / "m.tflite")
    assert types(tmp_path / "m.tflite", name) == ["float32"]
    expected = gp.run(source, feeds, backend="reference")["out"]
    np.testing.assert_allclose(gp.run(gp.load(tmp_path / "m.tflite"), feeds)["out"], expected, atol=0.0801)


def test_convolutions_of_int16_stay_so_through_onnx_with_their_bias_of_64_bits(tmp_path: Path) -> None:
    for name in ("conv_2d_int16", "exact_convolution_int16", "exact_layer_int16"):
        gp.save(gp.load(CASES_OF_FILES / f"{name}.tflite"), tmp_path / "there.onnx")
        gp.save(gp.load(tmp_path / "there.onnx"), tmp_path / "back.tflite")
        graphs = [
            gp.load(path, raw=True).graph for path in (CASES_OF_FILES / f"{name}.tflite", tmp_path / "back.tflite")
        ]
        words = [[(node.op_type, node.operands[0].fact) for node in graph] for graph in graphs]
        assert words[0] == words[1], name


def test_squares_of_differences_and_reciprocal_roots_of_bytes_are_integer_operators(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["y", "s", "z"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["dd"]),
        helper.make_node("QuantizeLinear", ["dd", "t", "u"], ["e"]),
        helper.make_node("DequantizeLinear", ["e", "t", "u"], ["f"]),
        helper.make_node("Sqrt", ["f"], ["g"]),
        helper.make_node("Reciprocal", ["g"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["o"]),
    ]
    told = {"s": np.float32(0.02), "z": np.int8(3), "t": np.float32(0.05), "u": np.int8(-128)}
    ports = [helper.make_tensor_value_info(name, TensorProto.INT8, [4, 50]) for name in ("x", "y", "o")]
    constants = [numpy_helper.from_array(np.array(number), name) for name, number in told.items()]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m.tflite")
    assert [node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph] == ["SQUARED_DIFFERENCE", "RSQRT"]
    r = np.random.default_rng(5)
    x = {name: r.integers(-128, 128, (4, 50)).astype(np.int8) for name in ("x", "y")}
    simulated, found = (gp.run(model, x, backend=each)["o"].astype(int) for each in ("reference", "litert"))
    assert np.abs(simulated - found).max() <= 1


def test_zero_points_that_are_cast_are_as_good_as_stored_ones(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        helper.make_node("Cast", ["long"], ["short"], to=TensorProto.INT8),
        helper.make_node("DequantizeLinear", ["w", "scales", "short"], ["b"], axis=0),
        helper.make_node("Gemm", ["a", "b"], ["c"], transB=1),
        helper.make_node("QuantizeLinear", ["c", "t", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["d", "t", "z"], ["y"]),
    ]
    r = np.random.default_rng(6)
    told = {"s": np.float32(0.02), "z": np.int8(3), "t": np.float32(0.05), "long": np.zeros(5, np.int64)}
    told |= {"w": r.integers(-127, 128, (5, 8)).astype(np.int8), "scales": r.uniform(0.01, 0.02, 5).astype(np.float32)}
    constants = [numpy_helper.from_array(np.array(number), name) for name, number in told.items()]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [3, 8]), ("y", [3, 5]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    words = [node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph]
    assert words == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]


def test_factors_of_channels_are_scales_of_filters_and_their_bias(tmp_path: Path) -> None:
    """NNCF's form: BatchNormalization after convolutions, and per-channel scales before depthwise ones."""
    random = np.random.default_rng(11)
    told: dict[str, Any] = {"s": np.float32(0.03), "z": np.int8(-3), "t": np.float32(0.05), "zero": np.uint8(0)}
    told |= {"steps": random.uniform(0.02, 0.06, 4).astype(np.float32), "zeros": np.zeros(4, np.uint8)}
    for name, shape in (("w", (4, 3, 3, 3)), ("v", (4, 1, 3, 3))):
        told[name] = random.integers(-127, 128, shape).astype(np.int8)
        told |= {f"{name}s": random.uniform(0.003, 0.006, 4).astype(np.float32), f"{name}z": np.zeros(4, np.int8)}
        told[f"{name}_scale"] = np.array([1.2, -0.7, 0.9, 1.4], np.float32)
        told |= {f"{name}_{part}": random.uniform(0.5, 1, 4).astype(np.float32) for part in ("bias", "mean", "var")}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "w_scale", "w_bias", "w_mean", "w_var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "steps", "zeros"], ["rq"], axis=1),
        helper.make_node("DequantizeLinear", ["rq", "steps", "zeros"], ["rd"], axis=1),
        helper.make_node("DequantizeLinear", ["v", "vs", "vz"], ["vd"], axis=0),
        helper.make_node("Conv", ["rd", "vd"], ["d"], group=4, pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["d", "v_scale", "v_bias", "v_mean", "v_var"], ["m"]),
        helper.make_node("Relu", ["m"], ["o"]),
        helper.make_node("QuantizeLinear", ["o", "t", "zero"], ["oq"]),
        helper.make_node("DequantizeLinear", ["oq", "t", "zero"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 9, 8]), ("y", [1, 4, 4, 3]))
    ]
    inits = [numpy_helper.from_array(np.asarray(array), name) for name, array in told.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m.tflite")
    words = [node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph]
    assert [op_type for op_type in words if op_type != "TRANSPOSE"] == [
        *("QUANTIZE", "CONV_2D", "PAD", "DEPTHWISE_CONV_2D", "DEQUANTIZE")
    ]
    x = {"x": random.normal(size=(1, 3, 9, 8)).astype(np.float32)}
    expected = gp.run(model, x, backend="reference")["y"]
    assert len(np.unique(expected)) > 10
    found = gp.run(gp.load(tmp_path / "m.tflite"), x, backend="litert")["y"]
    assert np.abs(found - expected).max() < 2.01 * 0.05
    assert np.mean(np.abs(found - expected) > 0.01) < 0.1
