"""Wide and narrow integers, float8, blocks and power-of-two scales: written files load and compute the right results."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.backends import reference
from graphport.core.dtypes import DType
from graphport.formats.onnx import runtime as onnxruntime
from tests.draws import spread
from tests.every import every
from tests.quantization import nets

NETS = ["residual", "depthwise", "products"]
CHANGES = {
    "sixteen bits": {"activation_bits": 16},
    "sixteen bits, signed and symmetric": {"activation_type": "int16", "symmetric": True},
    "eight bits, signed and symmetric": {"activation_type": "int8", "symmetric": True},
    "eight bits, signed": {"activation_type": "int8"},
    "weights of four bits": {"weight_bits": 4},
    "weights of four bits in blocks": {"weight_bits": 4, "weight_block": 4},
    "weights alone, of four bits in blocks": {"weight_bits": 4, "weight_block": 16, "weights_only": True},
    "weights alone, in ragged blocks": {"weight_bits": 4, "weight_block": 5, "weights_only": True},
    "weights alone, unsigned": {"weight_type": "uint4", "weight_block": 32, "weights_only": True},
    "sixteen and four bits": {"activation_bits": 16, "weight_bits": 4},
    "E4M3": {"activation_type": "float8_e4m3fn", "weight_type": "float8_e4m3fn"},
    "E5M2 and E4M3": {"activation_type": "float8_e5m2", "weight_type": "float8_e4m3fn"},
    "E5M2": {"activation_type": "float8_e5m2", "weight_type": "float8_e5m2"},
    "weights of E4M3": {"weight_type": "float8_e4m3fn", "weights_only": True},
    "integers by weights of E4M3": {"weight_type": "float8_e4m3fn"},
    "powers of two": {"power_of_two": True},
    "powers of two, symmetric": {"power_of_two": True, "symmetric": True, "activation_type": "int8"},
}


def _made(name, **changes):
    found = getattr(nets, name)()
    return found, gp.quantize(found, nets.samples(found, 32), preset="fast", **changes)


@every(("kind", "name"), spread(list(product(CHANGES, NETS))))
def test_quantized_models_load_with_all_optimizations(name, kind):
    found, made = _made(name, **CHANGES[kind])
    x = nets.samples(found, 8, seed=5)
    expected = gp.run(found, x)["y"]
    said = reference.prepare(made.graph).run(x)["y"]
    computed = onnxruntime.prepare(made.graph, optimize=True).run(x)["y"]
    assert nets.snr(expected, said) > 8
    assert nets.snr(said, computed) > nets.snr(expected, said) + 10


def test_blocks_are_those_of_the_file():
    _, made = _made("products", weight_bits=4, weight_block=8, weights_only=True)
    proto = gp.to_onnx(made)
    assert proto.opset_import[0].version >= 21
    blocked = [item for item in proto.graph.node if item.op_type == "DequantizeLinear"]
    assert len(blocked) == 2
    for item in blocked:
        attributes = {a.name: a.i for a in item.attribute}
        assert attributes == {"axis": 0, "block_size": 8}
    shapes = {t.name: (t.data_type, tuple(t.dims)) for t in proto.graph.initializer}
    codes, scales = (shapes[name] for name in blocked[0].input[:2])
    assert codes == (onnx.TensorProto.INT4, (16, 32))
    assert scales == (onnx.TensorProto.FLOAT, (2, 32))


def test_four_bits_take_half_the_room_of_eight(tmp_path):
    sizes = []
    for bits in (4, 8):
        _, made = _made("products", weight_bits=bits, weights_only=True)
        codes = [v.storage for v in made.graph.constants if v.storage.dtype in (DType.INT4, DType.INT8)]
        weights = [storage.nbytes for storage in codes if storage.count > 100]
        sizes.append(sum(weights))
    assert sizes[0] * 2 == sizes[1]


@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "tensorrt", "nnef", "ncnn"])
def test_powers_of_two_are_powers_of_two(target):
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found), target, preset="fast", power_of_two=True)
    pairs = [n for n in made.graph if n.op in ("QuantizeLinear", "DequantizeLinear")]
    scales = np.concatenate(
        [n.operands[1].storage.numpy().reshape(-1) for n in pairs if n.operands[0].fact.dtype is not DType.INT32]
    )
    assert scales.size > 10
    assert (np.frexp(scales)[0] == 0.5).all()


@pytest.mark.parametrize(("target", "changes", "said"), [
    pytest.param("ncnn", {"activation_bits": 16}, "ncnn does not support activations of type int16", id="ncnn, wide"),
    pytest.param("ncnn", {"weight_bits": 4}, "ncnn does not support weights of type int4", id="ncnn, narrow"),
    pytest.param("ncnn", {"weight_block": 16}, "ncnn does not support block-wise scales", id="ncnn, blocks"),
    pytest.param("nnef", {"weight_type": "float8_e4m3fn"}, "nnef does not support weights of type float8", id="nnef, floats"),
    pytest.param("openvino", {"activation_type": "float8_e5m2"}, "openvino does not support activations of type float8", id="openvino"),
])  # fmt: skip
def test_unsupported_settings_are_rejected_before_work(target, changes, said):
    found = nets.residual()
    heard = []
    with pytest.raises(gp.DiagnosticError, match=rf"QUANT0004.*{said}"):
        gp.quantize(found, nets.samples(found), target, on_progress=lambda *words: heard.append(words), **changes)
    assert heard == []


def test_all_unsupported_settings_are_reported_together():
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.quantize(found, nets.samples(found), "ncnn", activation_bits=16, weight_bits=4, weight_block=8)
    assert len(caught.value.diagnostics) == 3
