"""Transforms and windows against ONNX Runtime and the standard's implementation, and what their rules refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.signal import DFT, STFT, BlackmanWindow, HammingWindow, HannWindow, MelWeightMatrix
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, old_opset, run_operator
from tests.ops.standard import check_by_standard


def number(value, dtype=np.int64):
    return np.array(value, dtype)


@given(
    st.integers(0, 999),
    st.sampled_from([(5,), (2, 6), (1, 3, 4)]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([(0, 0), (0, 1), (1, 0)]),
    st.sampled_from([None, 4, 8]),
    st.data(),
)
def test_transforms_are_those_of_onnx_runtime(seed, dims, dtype, kind, length, data):
    inverse, onesided = kind
    parts = 1 if onesided else data.draw(st.sampled_from([1, 2]))
    x = np.random.default_rng(seed).normal(size=(*dims, parts)).astype(dtype)
    axis = number(data.draw(st.integers(0, len(dims) - 1)))
    inputs = [x, None if length is None else number(length), axis]
    # ONNX Runtime divides by the length as a float32 number.
    check_operator(DFT, inputs, inverse=inverse, onesided=onesided, tolerance=1e-4 if dtype == np.float32 else 1e-6)


@given(st.integers(0, 99), st.integers(3, 7), st.sampled_from([None, 6, 7]))
def test_inverse_onesided_dft_restores_a_real_signal(seed, n, length):
    x = np.random.default_rng(seed).normal(size=(2, n, 2)).astype(np.float32)
    inputs = [x, None if length is None else number(length), number(1)]
    check_by_standard(DFT, inputs, inverse=1, onesided=1, tolerance=1e-5)


def test_the_axis_was_an_attribute():
    x = np.random.default_rng(0).normal(size=(2, 5, 1)).astype(np.float32)
    old_opset("DFT", 17, [x], tolerance=1e-4)
    old_opset("DFT", 17, [x, number(4)], axis=0, onesided=1, tolerance=1e-4)


def test_half_types_keep_their_type():
    (found,) = run_operator(DFT, [np.ones((4, 1), np.float16)])
    assert found.dtype == np.float16
    assert found.tolist() == [[4, 0], [0, 0], [0, 0], [0, 0]]


@given(st.integers(0, 999), st.integers(1, 3), st.integers(6, 9), st.integers(1, 4), st.data())
def test_short_transforms_are_those_of_onnx_runtime(seed, batch, total, step, data):
    rng = np.random.default_rng(seed)
    length = data.draw(st.integers(2, total))
    windowed = data.draw(st.booleans())
    onesided = data.draw(st.integers(0, 1))
    signal = rng.normal(size=(batch, total, 1)).astype(np.float32)
    window = rng.uniform(0, 1, length).astype(np.float32) if windowed else None
    frame_length = None if windowed and data.draw(st.booleans()) else number(length)
    check_operator(STFT, [signal, number(step), window, frame_length], onesided=onesided, tolerance=1e-4)


@given(st.integers(2, 20), st.integers(0, 1), st.sampled_from([DType.FLOAT32, DType.FLOAT64]))
@pytest.mark.parametrize("op_def", [HannWindow, HammingWindow, BlackmanWindow], ids=lambda op_def: op_def.name)
def test_windows_are_those_of_onnx_runtime(op_def, size, periodic, dtype):
    check_operator(op_def, [number(size)], periodic=periodic, output_datatype=dtype, tolerance=2e-6)


def test_window_of_size_1_is_finite():
    (found,) = run_operator(BlackmanWindow, [number(1)], periodic=0)
    assert np.isfinite(found).all()


@given(st.integers(1, 8), st.sampled_from([16, 31, 64]), st.sampled_from([8000, 16000]))
def test_mel_weights_are_those_of_onnx_runtime(bins, length, rate):
    edges = number(20, np.float32), number(rate / 2 - 100, np.float32)
    check_operator(MelWeightMatrix, [number(bins), number(length), number(rate), *edges], tolerance=1e-5)


def test_an_edge_beyond_the_spectrum_is_refused():
    with pytest.raises(IndexError, match="of 9 frequencies"):
        run_operator(
            MelWeightMatrix, [number(4), number(16), number(8000), number(0, np.float32), number(16000, np.float32)]
        )


def fact(*shape, dtype=DType.FLOAT32, elements=None):
    return TensorFact(dtype, shape, elements)


def scalar(value):
    return fact(dtype=DType.INT64, elements=(value,))


def test_shapes_of_transforms_are_formulas():
    n = Symbol("N")
    (found,) = Inference().infer_operator(DFT, [fact(2, n, 1), None, scalar(1)], {"onesided": 1}, 1)
    assert found == fact(2, n // 2 + 1, 2)
    (found,) = Inference().infer_operator(STFT, [fact(2, n, 1), scalar(2), fact(8)], {}, 1)
    assert found == fact(2, (n - 8) // 2 + 1, 5, 2)
    (found,) = Inference().infer_operator(HannWindow, [scalar(n)], {}, 1)
    assert found == fact(n)


@pytest.mark.parametrize(
    ("op_def", "operands", "attributes", "message"),
    [
        pytest.param(DFT, [fact(4)], {}, "rank 1", id="parts"),
        pytest.param(DFT, [fact(4, 3)], {}, "last axis", id="three parts"),
        pytest.param(DFT, [fact(4, 2)], {"onesided": 1}, "onesided=1 with complex", id="half of complex"),
        pytest.param(
            DFT,
            [fact(4, 1), None, scalar(1)],
            {},
            "axis 1 is outside of the signal axes of a tensor of rank 2",
            id="axis",
        ),
        pytest.param(DFT, [fact(4, 1), scalar(0)], {}, "length 0", id="length"),
        pytest.param(STFT, [fact(4, 1), scalar(1)], {}, "signal length", id="rank"),
        pytest.param(STFT, [fact(1, 4, 1), scalar(1), fact(5)], {}, "frame_length 5", id="long frame"),
        pytest.param(
            STFT, [fact(1, 4, 1), scalar(1), fact(3), scalar(2)], {}, "frame_length and the window", id="both"
        ),
        pytest.param(HannWindow, [scalar(-1)], {}, "window size is -1", id="window"),
        pytest.param(HannWindow, [scalar(1)], {"output_datatype": DType.BOOL}, "is bool", id="type"),
    ],
)
def test_signals_are_refused(op_def, operands, attributes, message):
    with pytest.raises(ShapeError) as caught:
        Inference().infer_operator(op_def, operands, attributes, 1)
    assert message in f"{caught.value.message} {caught.value.help}"
