"""tract: weights of four bits in blocks, which its own runtime keeps and computes as they were measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tract
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.core.dtypes import DType
from graphport.formats.nnef.container.tract.blocks import BLOCK
from graphport.quantization.weights import block_qparams
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.test_weights_alone import TOKENS, decoder

FOUR = {"weights_only": True, "weight_bits": 4}


def _layers(depth=64, scale=1.0, op_type="MatMul", seed=0, second=32):
    r = np.random.default_rng(seed)
    w = (scale * r.normal(size=(depth, 96)) / 8).astype(np.float32)
    constants = {"w": w if op_type == "MatMul" else w.T.copy(), "v": r.normal(size=(96, second)).astype(np.float32)}
    first = node(op_type, ["x", "w"], ["h"], **({} if op_type == "MatMul" else {"transB": 1}))
    nodes = [first, node("Relu", ["h"], ["a"]), node("MatMul", ["a", "v"], ["y"])]
    return gp.from_onnx(model(nodes, [("x", [2, depth])], [("y", None)], constants, opset=17))


def _sizes(place):
    """Bytes of the tensor files of a folder, without their heads."""
    return {path.stat().st_size - 128 for path in place.glob("*.dat")}


def _theirs(place, x):
    runnable = tract.nnef().load(str(place)).into_runnable()
    (found,) = runnable.run([x])
    return found.to_numpy()


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm"])
def test_tract_block_quantized_weights_match_the_simulation(op_type, tmp_path):
    found = _layers(op_type=op_type)
    made = gp.quantize(found, None, "tract", **FOUR)
    gp.save(made, tmp_path / "m", format="nnef")
    assert {64 * 96 // BLOCK * 18, 96 * 32 // BLOCK * 18} <= _sizes(tmp_path / "m")
    x = np.random.default_rng(3).normal(size=(2, 64)).astype(np.float32)
    (real,), (said,) = gp.run(found, {"x": x}).values(), gp.run(made, {"x": x}, backend="reference").values()
    theirs = _theirs(tmp_path / "m", x)
    (again,) = gp.run(gp.load(tmp_path / "m"), {"x": x}, backend="reference").values()
    assert nets.snr(said, theirs) > 100
    assert nets.snr(said, again) > 100
    assert 15 < nets.snr(real, theirs) < 40


def test_tables_are_in_blocks_that_tract_picks_rows_out_of(tmp_path):
    found = decoder()
    made = gp.quantize(found, None, "tract", tables=True, **FOUR)
    gp.save(made, tmp_path / "m", format="nnef")
    assert TOKENS * 18 in _sizes(tmp_path / "m")
    ids = np.random.default_rng(1).integers(0, TOKENS, (3, 9))
    (said,) = gp.run(made, {"ids": ids}, backend="reference").values()
    assert nets.snr(said, _theirs(tmp_path / "m", ids)) > 90


def test_block_scales_are_float16_for_tiny_weights():
    r = np.random.default_rng(0)
    numbers = (r.normal(size=(4, 128)) * np.array([[1e-9], [1e-4], [1.0], [1e5]])).astype(np.float32)
    qparams = block_qparams(numbers, DType.INT4, 1, BLOCK, half_scales=True)
    assert np.array_equal(qparams.scale, qparams.scale.astype(np.float16).astype(np.float32))
    assert qparams.scale.min() > 0
    assert not qparams.zero_point.any()
    off = np.abs(qparams.nearest(numbers) - numbers)
    assert off[0].max() <= 2.0**-24
    assert np.all(np.sum(off[1:] ** 2, axis=1) < 0.02 * np.sum(numbers[1:] ** 2, axis=1))


def test_no_symmetric_block_is_further_off_than_with_its_whole_range():
    numbers = np.random.default_rng(1).standard_t(3, size=(50, 96)).astype(np.float32)
    qparams = block_qparams(numbers, DType.INT4, 1, BLOCK)
    plain = np.repeat(np.abs(numbers.reshape(50, 3, BLOCK)).max(axis=-1) / 7, BLOCK, axis=1)
    expected = np.clip(np.rint(numbers / plain), -7, 7) * plain
    error, other = (
        ((x - numbers) ** 2).reshape(50, 3, BLOCK).sum(axis=-1) for x in (qparams.nearest(numbers), expected)
    )
    assert np.all(error <= other * (1 + 1e-5))
    assert error.sum() < 0.85 * other.sum()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weight_bits": 4}, "tract supports only weight-only quantization"),
        ({"weights_only": True}, "tract does not support weights of type int8 .choose int4"),
        ({"weight_block": 64, **FOUR}, "tract supports blocks of 32 weights, not 64"),
    ],
)
def test_unsupported_tract_blocks_are_rejected(changes, said):
    with pytest.raises(gp.DiagnosticError, match=f"QUANT0004.*{said}"):
        gp.quantize(_layers(), None, "tract", **changes)


def test_layers_that_blocks_do_not_fit_stay_real_and_state_why():
    made = gp.quantize(_layers(depth=40), None, "tract", **FOUR)
    (reason,) = [layer.reasons for layer in made.report.floating]
    assert reason == ("its 40 summed elements are not a multiple of the block size 32 of tract",)
    made = gp.quantize(_layers(scale=1e7), None, "tract", **FOUR)
    assert "exceed the float16 range" in made.report.floating[0].reasons[0]
    proto = model(
        [node("MatMul", ["x", "w"], ["y"])], [("x", [2, 5])], [("y", None)], {"w": np.ones((5, 4), np.float32)}
    )
    with pytest.raises(
        gp.DiagnosticError, match=r"QUANT0007.*5 summed elements are not a multiple of the block size 32"
    ):
        gp.quantize(gp.from_onnx(proto), None, "tract", **FOUR)


def test_quantize_command_selects_tract_for_weights_only_nnef(tmp_path):
    gp.save(decoder(), tmp_path / "m.onnx")
    line = ["quantize", str(tmp_path / "m.onnx"), str(tmp_path / "m.nnef.tgz"), "--weights-only", "--weight-bits", "4"]
    done = CliRunner().invoke(cli, [*line, "--no-latency", "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert told["settings"]["target"] == "tract"
    assert [w["runtime"] for w in told["verify"]["witnesses"] if w["side"] == "b" and w["is_own"]] == ["tract"]
    again = gp.load(tmp_path / "m.nnef.tgz")
    assert sum(each.op == "DequantizeLinear" for each in again.graph) == 7
