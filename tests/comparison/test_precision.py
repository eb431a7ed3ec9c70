"""How equal rewritten networks in half precision are to be."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from graphport import from_onnx
from graphport.comparison import compare_outputs
from graphport.comparison.precision import least_snr, quantized_snr
from graphport.ir.text import from_text
from tests.models import model, node


def cast_to(*types: int):
    nodes = [node("Cast", ["x"], [f"y{index}"], to=each) for index, each in enumerate(types)]
    outputs = [(f"y{index}", [2]) for index in range(len(types))]
    proto = model(nodes, [("x", [2])], outputs, {}, opset=19)
    for output, each in zip(proto.graph.output, types, strict=True):
        output.type.tensor_type.elem_type = each
    return from_onnx(proto).graph


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param([TensorProto.DOUBLE, TensorProto.INT8], None, id="more bits"),
        pytest.param([TensorProto.FLOAT16, TensorProto.FLOAT], 50, id="half"),
        pytest.param([TensorProto.FLOAT16, TensorProto.BFLOAT16], 30, id="the coarsest counts"),
    ],
)
def test_the_coarsest_type_that_is_computed_decides(types, expected):
    assert least_snr(cast_to(*types)) == expected


def test_noise_decides_and_not_the_largest_difference():
    exact = {"y": np.linspace(-1, 1, 100, dtype=np.float32)}
    near, far = ({"y": exact["y"] * np.float32(factor)} for factor in (1.001, 1.01))
    assert not compare_outputs(exact, near).passed
    found = compare_outputs(exact, near).within(50, "half-precision computation")
    assert found.passed
    assert found.notes == ("tolerance for half-precision computation: SNR >= 50 dB",)
    assert not compare_outputs(exact, far).within(50).passed


def test_quantized_snr_applies_to_graphs_with_quantization():
    quantized = "%q = QuantizeLinear(%x, %s)"
    assert quantized_snr(from_text(f"graph g(%x, %s) {{ {quantized} return %q }}")) == 25
    body = f"%y = If(%x) {{then_branch = graph then() {{ {quantized} return %q }}}}"
    assert quantized_snr(from_text(f"graph g(%x, %s) {{ {body} return %y }}")) == 25
    for other in ("Neg(%x)", "nnef.QuantizeLinear(%x)", "DequantizeLinear(%x, %s)"):
        assert quantized_snr(from_text(f"graph g(%x, %s) {{ %y = {other} return %y }}")) is None
