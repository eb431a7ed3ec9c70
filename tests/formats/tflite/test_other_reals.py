"""Halves and float64, for which LiteRT has few kernels: every operator of reals is computed in float32 there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from pathlib import Path

ONE = (
    *("Abs", "Neg", "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan"),
    *("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Sigmoid", "Relu", "Elu", "Selu", "LeakyRelu"),
    *("HardSigmoid", "HardSwish", "Softplus", "Softsign", "ThresholdedRelu", "Shrink", "Gelu", "Mish", "Erf", "Sign"),
    *("Reciprocal", "IsNaN", "IsInf", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ReduceMean"),
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
    node = helper.make_node(op, [*shapes], ["o"], **stated)
    inputs = [helper.make_tensor_value_info(name, kind, dims) for name, dims in shapes.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="o")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), folder / "m.onnx")
    model = gp.load(folder / "m.onnx")
    gp.save(model, folder / "m.tflite")
    low, high = RANGES.get(op, (-2.0, 2.0))
    return (
        model,
        folder / "m.tflite",
        {name: random.uniform(low, high, dims).astype(dtype) for name, dims in shapes.items()},
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_operators_compute_what_they_do_in_float32(dtype: Any, tmp_path: Path) -> None:
    wrong: dict[str, Any] = {}
    near = 5e-3 if dtype is np.float16 else 1e-5
    with LiteRT() as litert:
        for op in (*ONE, *TWO):
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
