"""Models quantized for LiteRT compute the simulated results there, in integer kernels."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphport as gp
from tests.formats.tflite.litert import LiteRT
from tests.models import model, node
from tests.quantization import nets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "op_type", "count"),
    [("residual", "CONV_2D", 2), ("depthwise", "DEPTHWISE_CONV_2D", 1), ("products", "FULLY_CONNECTED", 2)],
)
def test_tflite_integer_layers_match_the_simulation(name: str, op_type: str, count: int, tmp_path: Path) -> None:
    model = getattr(nets, name)()
    quantized = gp.quantize(model, nets.samples(model, 16), target="tflite")
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    layers = Counter((node.op_type, str(node.operands[0].fact.dtype)) for node in raw.graph)
    assert layers[op_type, "int8"] == count
    x = nets.samples(model, 2, seed=7)
    expected = gp.run(model, x, backend="reference")
    simulated = gp.run(quantized, x, backend="reference")
    found = gp.run(gp.load(tmp_path / "q.tflite"), x, backend="litert")
    for one in expected:
        assert nets.snr(simulated[one], found[one]) > 45
        assert nets.snr(expected[one], found[one]) > 28


def test_convolutions_of_signals_are_quantized_and_compute_on_integers(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    nodes = [
        node("Conv", ["x", "w", "b"], ["h"], pads=[1, 1]),
        node("Relu", ["h"], ["r"]),
        node("Conv", ["r", "v"], ["y"]),
    ]
    shapes = {"w": (8, 4, 3), "b": (8,), "v": (6, 8, 3)}
    constants = {name: random.normal(0, 0.3, dims).astype(np.float32) for name, dims in shapes.items()}
    found = gp.from_onnx(model(nodes, [("x", [1, 4, 32])], [("y", [1, 6, 30])], constants))
    quantized = gp.quantize(found, nets.samples(found, 16), target="tflite", preset="fast")
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    layers = [str(node.operands[0].fact.dtype) for node in raw.graph if node.op_type == "CONV_2D"]
    assert layers == ["int8", "int8"]
    x = {"x": random.normal(size=(1, 4, 32)).astype(np.float32)}
    (expected,) = gp.run(quantized, x, backend="reference").values()
    assert nets.snr(expected, _run(tmp_path / "q.tflite", x)) > 35


def _run(path: Path, x: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    with LiteRT() as litert:
        found = litert(path, list(x.values()))
    assert not isinstance(found, str), found
    return found[0]


@pytest.mark.parametrize(("bits", "dtype"), [(8, "int8"), (16, "int16")])
@pytest.mark.parametrize("name", ["residual", "depthwise", "curves", "upsampled"])
def test_full_integer_model_contains_no_floats(name: str, bits: int, dtype: str, tmp_path: Path) -> None:
    found = getattr(nets, name)() if hasattr(nets, name) else NETS[name](bits)
    quantized = gp.quantize(
        found, nets.samples(found, 16), target="tflite", full_integer=True, activation_bits=bits, preset="fast"
    )
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    for value in raw.graph.values():
        assert value.is_constant or "float" not in str(value.fact.dtype), value.name
    (x,) = quantized.graph.inputs
    assert str(x.fact.dtype) == dtype
    assert [value.name for value in quantized.graph.outputs] == [value.name for value in found.graph.outputs]
    limits = np.iinfo(dtype)
    shape = [dim if isinstance(dim, int) else 2 for dim in x.fact.shape]
    codes = np.random.default_rng(1).integers(limits.min // 2, limits.max // 2, shape).astype(dtype)
    (simulated,) = gp.run(quantized, {"x": codes}, backend="reference").values()
    given = _run(tmp_path / "q.tflite", {"x": codes})
    steps = np.abs(given.astype(int) - simulated.astype(int))
    # LiteRT rounds some elements to a neighbour; of few elements these may be all.
    assert steps.max() <= 1
    assert steps.size < 100 or np.mean(steps) < 1 / 8


def _curves(bits: int) -> gp.Model:
    """Return a net of Sigmoid, Tanh, Softmax and products of them, between convolutions."""
    r = np.random.default_rng(3)
    constants = {"w": r.normal(size=(8, 4, 3, 3)).astype(np.float32) / 6, "v": r.normal(size=(6, 8)).astype(np.float32)}
    constants["scale"] = r.uniform(0.5, 2, (1, 8, 1, 1)).astype(np.float32)
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["a", "s"], ["g"]),
        node("Tanh", ["g"], ["t"]),
        node("Sub", ["t", "g"], ["d"]),
        node("Mul", ["d", "scale"], ["k"]),
        node("HardSwish" if bits == 8 else "LeakyRelu", ["k"], ["h"]),
        node("ReduceMean", ["h"], ["m"], axes=[2, 3], keepdims=0),
        node("Gemm", ["m", "v"], ["l"], transB=1),
        node("Softmax", ["l"], ["y"], axis=-1),
    ]
    return gp.from_onnx(model(nodes, [("x", [1, 4, 8, 8])], [("y", [1, 6])], constants))


def _upsampled(_: int) -> gp.Model:
    """A transposed convolution whose border is cut off, bilinear resizing, and a concatenation with a shortcut."""
    r = np.random.default_rng(4)
    constants = {"w": r.normal(size=(4, 6, 3, 3)).astype(np.float32) / 4, "b": r.normal(size=6).astype(np.float32)}
    constants |= {"scales": np.array([1, 1, 2, 2], np.float32), "v": r.normal(size=(3, 10, 1, 1)).astype(np.float32)}
    nodes = [
        node("ConvTranspose", ["x", "w", "b"], ["a"], strides=[2, 2], pads=[1, 1, 0, 0]),
        node("Relu", ["a"], ["p"]),
        node("Resize", ["x", "", "scales"], ["u"], mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Concat", ["p", "u"], ["c"], axis=1),
        node("Conv", ["c", "v"], ["y"]),
    ]
    return gp.from_onnx(model(nodes, [("x", [1, 4, 6, 6])], [("y", [1, 3, 12, 12])], constants))


NETS = {"curves": _curves, "upsampled": _upsampled}


def _constants(**arrays: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.asarray(x, np.int64 if name == "axes" else np.float32) for name, x in arrays.items()}


PATTERNS = {
    "hard sigmoid": ([node("HardSigmoid", ["a"], ["m"], alpha=1 / 6, beta=0.5)], {}),
    "hard sigmoid with default slope": ([node("HardSigmoid", ["a"], ["m"])], {}),
    "squeeze and excitation": (
        [
            node("GlobalAveragePool", ["a"], ["p"]),
            node("HardSigmoid", ["p"], ["s"], alpha=1 / 6, beta=0.5),
            node("Mul", ["a", "s"], ["m"]),
        ],
        {},
    ),
    "sigmoid and minimum": ([node("Sigmoid", ["a"], ["s"]), node("Min", ["s", "k"], ["m"])], _constants(k=0.5)),
    "concatenation of two fixed scales": (
        [node("Sigmoid", ["a"], ["s"]), node("Tanh", ["a"], ["t"]), node("Concat", ["s", "t"], ["m"], axis=1)],
        {},
    ),
    "clip of a value with two readers": (
        [node("Clip", ["a", "low", "high"], ["c"]), node("Mul", ["a", "c"], ["m"])],
        _constants(low=0, high=1),
    ),
    "maximum of image": (
        [node("ReduceMax", ["a", "axes"], ["r"], keepdims=1), node("Add", ["a", "r"], ["m"])],
        _constants(axes=[2, 3]),
    ),
    "sum of channels": (
        [node("ReduceSum", ["a", "axes"], ["r"], keepdims=1), node("Add", ["a", "r"], ["m"])],
        _constants(axes=[1]),
    ),
    "split and gate": (
        [
            node("Split", ["a"], ["s", "t"], axis=1, num_outputs=2),
            node("Sigmoid", ["t"], ["g"]),
            node("Mul", ["s", "g"], ["m"]),
        ],
        {},
    ),
    "constant channels": ([node("Concat", ["a", "k"], ["m"], axis=1)], _constants(k=np.ones((1, 2, 8, 8)))),
}


@pytest.mark.parametrize("name", list(PATTERNS))
def test_patterns_without_tflite_kernel_use_integer_operators(name: str, tmp_path: Path) -> None:
    nodes, constants = PATTERNS[name]
    r = np.random.default_rng(6)
    weights = {"w": r.normal(size=(8, 4, 3, 3)) / 6, "v": r.normal(size=(3, _channels(name), 1, 1)) / 3}
    proto = model(
        [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), *nodes, node("Conv", ["m", "v"], ["y"])],
        [("x", [1, 4, 8, 8])],
        [("y", [1, 3, 8, 8])],
        {**constants, **{key: x.astype(np.float32) for key, x in weights.items()}},
        opset=18,
    )
    found = gp.from_onnx(proto)
    float_scales = gp.quantize(found, nets.samples(found, 16), target="tflite", preset="fast")
    quantized = gp.quantize(found, nets.samples(found, 16), target="tflite", full_integer=True, preset="fast")
    assert quantized.report.snr_db > float_scales.report.snr_db - 3
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    for value in raw.graph.values():
        assert value.is_constant or "float" not in str(value.fact.dtype), value.name
    codes = r.integers(-64, 64, (1, 4, 8, 8)).astype(np.int8)
    (simulated,) = gp.run(quantized, {"x": codes}, backend="reference").values()
    given = _run(tmp_path / "q.tflite", {"x": codes})
    assert np.abs(given.astype(int) - simulated.astype(int)).max() <= 2


def _channels(name: str) -> int:
    return {"concatenation of two fixed scales": 16, "split and gate": 4, "constant channels": 10}.get(name, 8)


def test_an_operand_of_a_concatenation_that_others_read_keeps_its_scale(tmp_path: Path) -> None:
    r = np.random.default_rng(8)
    weights = {
        "w": r.normal(size=(4, 4, 3, 3)) / 6,
        "v": r.normal(size=(4, 4, 3, 3)) / 2,
        "u": r.normal(size=(3, 4, 1, 1)),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Conv", ["a", "v"], ["b"], pads=[1, 1, 1, 1]),
        node("Concat", ["x", "a", "b"], ["c"], axis=1),
        node("AveragePool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["a", "u"], ["e"]),
    ]
    outputs = [("d", [1, 12, 4, 4]), ("e", [1, 3, 8, 8])]
    constants = {key: x.astype(np.float32) for key, x in weights.items()}
    found = gp.from_onnx(model(nodes, [("x", [1, 4, 8, 8])], outputs, constants))
    quantized = gp.quantize(found, nets.samples(found, 16), target="tflite", full_integer=True, preset="fast")
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    words = Counter(node.op_type for node in raw.graph)
    assert words["QUANTIZE"] == 2, "x and a go into the concatenation with its scale"
    assert quantized.report.snr_db > 30


def test_full_integer_rejects_operators_without_integer_kernel() -> None:
    found = nets.products()
    with pytest.raises(gp.DiagnosticError, match="LayerNormalization 'norm' computes on floats") as told:
        gp.quantize(found, nets.samples(found, 8), target="tflite", full_integer=True, preset="fast")
    assert {finding.code for finding in told.value.diagnostics} == {"QUANT0030"}
    with pytest.raises(gp.DiagnosticError, match="does not support full-integer models"):
        gp.quantize(found, nets.samples(found, 8), target="ncnn", full_integer=True)


@pytest.mark.parametrize("name", ["residual", "products"])
def test_dynamic_products_use_litert_hybrid_kernels(name: str, tmp_path: Path) -> None:
    found = getattr(nets, name)()
    quantized = gp.quantize(found, target="tflite", dynamic=True, preset="fast")
    gp.save(quantized, tmp_path / "q.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    products = [node for node in raw.graph if node.op_type == "FULLY_CONNECTED"]
    assert products
    for each in products:
        assert [str(value.fact.dtype) for value in each.operands[:2]] == ["float32", "int8"]
        assert each.attributes["asymmetric_quantize_inputs"]
    x = nets.samples(found, 3, seed=7)
    (simulated,) = gp.run(quantized, x, backend="reference").values()
    assert nets.snr(simulated, _run(tmp_path / "q.tflite", x)) > 80
    gp.save(quantized, tmp_path / "q.onnx")
    (other,) = gp.run(gp.load(tmp_path / "q.onnx"), x, backend="onnxruntime").values()
    assert nets.snr(simulated, other) > 80


@pytest.mark.parametrize("options", [{"weight_type": "float16"}, {}], ids=["halves", "bytes"])
@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
def test_stored_weights_are_dequantized_once_without_transpose(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    found = getattr(nets, name)()
    quantized = gp.quantize(found, target="tflite", weights_only=True, preset="fast", **options)
    gp.save(quantized, tmp_path / "q.tflite")
    gp.save(found, tmp_path / "real.tflite")
    raw = gp.load(tmp_path / "q.tflite", raw=True)
    stored = [node for node in raw.graph if node.op_type == "DEQUANTIZE"]
    assert stored
    assert all(node.operands[0].is_constant for node in stored)
    assert not [node for node in raw.graph if node.op_type == "TRANSPOSE" and node.operands[0].producer in stored]
    x = nets.samples(found, 3, seed=7)
    (simulated,) = gp.run(quantized, x, backend="reference").values()
    assert nets.snr(simulated, _run(tmp_path / "q.tflite", x)) > 90
    assert quantized.report is not None
    assert quantized.report.snr_db > (60 if options else 30)


def test_other_targets_do_not_store_float16_values() -> None:
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError, match="does not support float16 weights"):
        gp.quantize(found, target="tract", weights_only=True, weight_type="float16")
