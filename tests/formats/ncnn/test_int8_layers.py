"""Layers with int8 weights that quantize their operands at run time are read as ncnn computes them."""

from __future__ import annotations

import struct

import ncnn
import numpy as np
import pytest

import graphport as gp

TIME, SIZE, HIDDEN, ROWS = 6, 10, 12, 7
RANDOM = np.random.default_rng(0)


def _codes(*shape):
    """An int8 weight with its flag, padded to four bytes."""
    data = RANDOM.integers(-127, 128, shape).astype(np.int8).tobytes()
    return struct.pack("<I", 0x000D4B38) + data + bytes(-len(data) % 4)


def _floats(*shape, is_flagged=True, low=-1.0, high=1.0):
    flag = struct.pack("<I", 0) if is_flagged else b""
    return flag + RANDOM.uniform(low, high, shape).astype(np.float32).tobytes()


def _scales(*shape):
    """Integers per real unit; stored without a flag."""
    return _floats(*shape, is_flagged=False, low=150, high=400)


def _recurrent(op, gates, ways):
    rows = gates * HIDDEN
    biases = 4 * HIDDEN if op == "GRU" else rows
    line = f"{op} layer 1 1 in0 out0 0={HIDDEN} 1={ways * rows * SIZE} 2={2 if ways == 2 else 0} 8=2"
    weights = [_codes(ways, rows, SIZE), _floats(ways, biases), _codes(ways, rows, HIDDEN)]
    return line, b"".join([*weights, _scales(ways, rows), _scales(ways, rows)])


def _gemm(bias):
    stated = {-1: "6=1 10=-1", 4: "6=1 10=4"}[bias]
    line = f"Gemm layer 1 1 in0 out0 0=0.5 3=1 4=0 5=1 8={ROWS} 9={SIZE} {stated} 18=2"
    return line, _codes(ROWS, SIZE) + (_floats(ROWS) if bias == 4 else b"") + _scales(1)


LAYERS = {
    **{f"{op}, {ways}": (_recurrent(op, gates, ways)) for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)) for ways in (1, 2)},
    "Gemm": _gemm(-1),
    "Gemm with a bias": _gemm(4),
}  # fmt: skip


def _write(folder, line, weights):
    (folder / "net.param").write_text(f"7767517\n2 2\nInput in0 0 1 in0\n{line}\n")
    (folder / "net.bin").write_bytes(weights)
    return folder / "net.param"


def _run(path, x):
    net = ncnn.Net()
    net.opt.num_threads = 1
    assert net.load_param(str(path)) == 0
    assert net.load_model(str(path.with_suffix(".bin"))) == 0
    extractor = net.create_extractor()
    extractor.input("in0", ncnn.Mat(x).clone())
    return np.array(extractor.extract("out0")[1])


@pytest.mark.parametrize("name", LAYERS)
def test_layers_compute_what_ncnn_computes(name, tmp_path):
    path = _write(tmp_path, *LAYERS[name])
    x = np.random.default_rng(4).normal(size=(TIME, SIZE)).astype(np.float32)
    (result,) = gp.run(gp.load(path, shapes={"in0": (1, TIME, SIZE)}), {"in0": x[None]}, backend="reference").values()
    np.testing.assert_allclose(result[0], _run(path, x), atol=1e-5, rtol=1e-5)


def test_embedding_tables_have_one_scale(tmp_path):
    line = f"Embed layer 1 1 in0 out0 0={SIZE} 1={ROWS} 2=1 3={ROWS * SIZE} 18=2"
    path = _write(tmp_path, line, _codes(ROWS, SIZE) + _floats(SIZE, is_flagged=False) + _scales(1))
    x = np.array([0, 3, ROWS - 1], np.int32)
    (result,) = gp.run(gp.load(path, shapes={"in0": (1, 3)}), {"in0": x[None]}, backend="reference").values()
    np.testing.assert_allclose(result[0], _run(path, x), atol=1e-6)
