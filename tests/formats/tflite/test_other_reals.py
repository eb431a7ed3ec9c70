"""Halves, bfloat16 and float64, for which LiteRT has few kernels: operators of reals are computed in float32 there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphport as gp
from tests.draws import spread
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from pathlib import Path

ONE = (
    *("Abs", "Neg", "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan"),
    *("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Sigmoid", "Relu", "Elu", "Selu", "LeakyRelu"),
    *("HardSigmoid", "HardSwish", "Softplus", "Softsign", "ThresholdedRelu", "Shrink", "Gelu", "Mish", "Erf", "Sign"),
    *("Swish", "Reciprocal", "IsNaN", "IsInf", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ReduceMean"),
    *("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum"),
    *("ReduceLogSumExp", "ReduceSumSquare", "Transpose", "Flatten", "GlobalAveragePool", "GlobalMaxPool"),
    *("MeanVarianceNormalization", "ArgMax", "ArgMin"),
)
TWO = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Equal", "Less", "Greater", "LessOrEqual"),
    *("GreaterOrEqual", "MatMul", "Mod"),
)
IMAGES: tuple[str, ...] = ("GlobalAveragePool", "GlobalMaxPool", "MeanVarianceNormalization")
POSITIVE: tuple[str, ...] = ("Asin", "Acos", "Atanh", "Log", "Sqrt", "Pow", "ReduceLogSum", "Reciprocal")
RANGES = {"Acosh": (1.1, 3.0), **dict.fromkeys(POSITIVE, (0.1, 0.9))}


def written(folder: Path, op: str, dtype: Any) -> tuple[gp.Model, Path, dict[str, Any]]:
    random, kind = np.random.default_rng(3), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shape = (2, 3, 4, 4) if op in IMAGES else (3, 4)
    shapes = {"x": shape} | ({"y": (4, 3) if op == "MatMul" else shape} if op in TWO else {})
    stated: dict[str, Any] = {"fmod": 1} if op == "Mod" else {}
    if dtype is ml_dtypes.bfloat16:
        # LiteRT's interpreter for Python is given no bfloat16: it is made inside.
        kind = TensorProto.FLOAT
        nodes = [helper.make_node("Cast", [name], [f"{name}_"], to=TensorProto.BFLOAT16) for name in shapes]
        nodes.append(helper.make_node(op, [f"{name}_" for name in shapes], ["o_"], **stated))
        result = TensorProto.INT64 if op in ("ArgMax", "ArgMin") else TensorProto.FLOAT
        nodes.append(helper.make_node("Cast", ["o_"], ["o"], to=result))
    else:
        nodes = [helper.make_node(op, [*shapes], ["o"], **stated)]
    inputs = [helper.make_tensor_value_info(name, kind, dims) for name, dims in shapes.items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="o")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), folder / "m.onnx")
    model = gp.load(folder / "m.onnx")
    gp.save(model, folder / "m.tflite")
    low, high = RANGES.get(op, (-2.0, 2.0))
    return (
        model,
        folder / "m.tflite",
        {name: _drawn(random, (low, high), dims, dtype) for name, dims in shapes.items()},
    )


def takes(op: str, dtype: Any) -> bool:
    """Whether ONNX has the operator of these numbers."""
    kinds = onnx.defs.get_schema(op, 24).inputs[0].types
    return f"tensor({np.dtype(dtype).name.replace('float64', 'double')})" in kinds


def _drawn(random: np.random.Generator, ends: tuple[float, float], dims: tuple[int, ...], dtype: Any) -> Any:
    drawn = random.uniform(*ends, dims).astype(dtype)
    return drawn.astype(np.float32) if dtype is ml_dtypes.bfloat16 else drawn


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_operators_compute_what_they_do_in_float32(dtype: Any, tmp_path: Path) -> None:
    wrong: dict[str, Any] = {}
    near = {np.float16: 5e-3, ml_dtypes.bfloat16: 4e-2, np.float64: 1e-5}[dtype]
    with LiteRT() as litert:
        for op in spread([each for each in (*ONE, *TWO) if takes(each, dtype)]):
            model, path, given = written(tmp_path, op, dtype)
            (expected,) = gp.run(model, given, backend="reference").values()
            found = litert(path, list(given.values()))
            if isinstance(found, str):
                wrong[op] = found
            elif found[0].dtype != expected.dtype:
                wrong[op] = found[0].dtype
            elif not np.allclose(found[0].astype(float), expected.astype(float), rtol=near, atol=near, equal_nan=True):
                wrong[op] = "other numbers"
    assert wrong == {}


IMAGE, FILTERS = (1, 4, 6, 6), (4, 4, 3, 3)
OF_LAYERS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "Conv": ([IMAGE, FILTERS, (4,)], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "ConvTranspose": ([IMAGE, FILTERS], {"strides": [2, 2]}),
    "Gemm": ([(3, 4), (5, 4), (5,)], {"transB": 1, "alpha": 0.5}),
    "MaxPool": ([IMAGE], {"kernel_shape": [2, 2]}),
    "AveragePool": ([IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "LpPool": ([IMAGE], {"kernel_shape": [2, 2]}),
    "LRN": ([IMAGE], {"size": 3}),
    "DepthToSpace": ([IMAGE], {"blocksize": 2}),
    "SpaceToDepth": ([IMAGE], {"blocksize": 2}),
    "BatchNormalization": ([IMAGE, *[(4,)] * 4], {}),
}
"""Operands, the first of which is fed, and attributes."""


def test_layers_of_float16_values_compute_what_they_do_in_float32_and_stay_stored_so(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {}
    random = np.random.default_rng(8)
    with LiteRT() as litert:
        for op, (shapes, stated) in OF_LAYERS.items():
            arrays = [random.uniform(0.1, 1, dims).astype(np.float16) for dims in shapes]
            names = [f"x{place}" for place in range(len(arrays))]
            stored = [onnx.numpy_helper.from_array(*each) for each in list(zip(arrays, names, strict=True))[1:]]
            ports = [helper.make_tensor_value_info("x0", TensorProto.FLOAT16, shapes[0]), onnx.ValueInfoProto(name="o")]
            graph = helper.make_graph([helper.make_node(op, names, ["o"], **stated)], "g", ports[:1], ports[1:], stored)
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
            onnx.save(proto, tmp_path / "m.onnx")
            model = gp.load(tmp_path / "m.onnx")
            gp.save(model, tmp_path / "m.tflite")
            (expected,) = gp.run(model, {"x0": arrays[0]}, backend="reference").values()
            found = litert(tmp_path / "m.tflite", arrays[:1])
            kinds = {str(value.fact.dtype) for value in gp.load(tmp_path / "m.tflite", raw=True).graph.constants}
            if isinstance(found, str) or not np.allclose(found[0].astype(float), expected.astype(float), atol=5e-2):
                wrong[op] = found
            elif op in ("Conv", "ConvTranspose") and "float16" not in kinds:
                wrong[op] = kinds
    assert wrong == {}


@pytest.mark.parametrize("kind", ["INT4", "INT2", "UINT4", "BFLOAT16"])
@pytest.mark.parametrize("given", ["FLOAT", "FLOAT16", "INT32", "INT8"])
def test_numbers_of_few_bits_are_cast_from_every_type_and_back(kind: str, given: str, tmp_path: Path) -> None:
    source, inside = getattr(TensorProto, given), getattr(TensorProto, kind)
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=inside), helper.make_node("Cast", ["y"], ["z"], to=source)]
    ports = [helper.make_tensor_value_info(name, source, [9]) for name in "xz"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13), tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m.tflite")
    least, most = {"INT4": (-8, 7), "INT2": (-2, 1), "UINT4": (0, 15), "BFLOAT16": (-99, 99)}[kind]
    x = np.linspace(least, most, 9).astype(helper.tensor_dtype_to_np_dtype(source))
    with LiteRT() as litert:
        found = litert(tmp_path / "m.tflite", [x])
    assert not isinstance(found, str), found
    (expected,) = gp.run(model, {"x": x}, backend="reference").values()
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("axis", [None, 1])
def test_float16_values_are_quantized_as_float16_values_are_divided(axis: int | None, tmp_path: Path) -> None:
    """The quotient is a half before it is rounded: to the last bit, ties that this makes among them."""
    random = np.random.default_rng(4)
    scale = np.float16(0.013) if axis is None else random.uniform(0.01, 0.02, 8).astype(np.float16)
    zero = np.int8(-7) if axis is None else random.integers(-9, 9, 8).astype(np.int8)
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in (("s", scale), ("z", zero))]
    stated = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **stated)]
    nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **stated))
    x = random.uniform(-1.6, 1.6, (500, 8)).astype(np.float16)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)],
        [onnx.ValueInfoProto(name=name) for name in "qy"],
        stored,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m.tflite")
    expected = list(gp.run(model, {"x": x}, backend="reference").values())
    with np.errstate(all="ignore"):
        single = np.clip(np.rint(x.astype(np.float32) / scale.astype(np.float32)) + zero, -128, 127)
    assert np.any(single != expected[0]), "no quotient is a tie as a half alone"
    with LiteRT() as litert:
        found = litert(tmp_path / "m.tflite", [x])
    assert not isinstance(found, str), found
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
