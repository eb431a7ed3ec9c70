"""Shared qparams: operators that only move elements have the qparams of their operand."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.formats.onnx import runtime as onnxruntime
from graphport.ops.registry import op_defs
from graphport.quantization.engine import session
from tests.draws import spread
from tests.every import every
from tests.models import node
from tests.quantization import nets
from tests.quantization.targets.pieces import between, check, quantized


def _longs(*numbers):
    return np.asarray(numbers, np.int64)


MOVING = {
    "Compress": (node("Compress", ["h", "a"], ["m"], axis=2), {"a": np.asarray([True, False] * 5)}),
    "DepthToSpace": (node("DepthToSpace", ["h"], ["m"], blocksize=2), {}),
    "Expand": (node("Expand", ["h", "a"], ["m"]), {"a": _longs(3, 1, 8, 1, 1)}),
    "Flatten": (node("Flatten", ["h"], ["m"]), {}),
    "Gather": (node("Gather", ["h", "a"], ["m"], axis=2), {"a": _longs(3, 0, 7)}),
    "GatherElements": (
        node("GatherElements", ["h", "a"], ["m"], axis=3), {"a": np.zeros((1, 8, 10, 4), np.int64) + 2},
    ),
    "GatherND": (node("GatherND", ["h", "a"], ["m"]), {"a": _longs(0, 1).reshape(2, 1)}),
    "GlobalMaxPool": (node("GlobalMaxPool", ["h"], ["m"]), {}),
    "Identity": (node("Identity", ["h"], ["m"]), {}),
    "MaxPool": (node("MaxPool", ["h"], ["m"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]), {}),
    # A Pad with zeros would be fused into the next layer.
    "Pad": (node("Pad", ["h", "a"], ["m"], mode="reflect"), {"a": _longs(0, 0, 1, 0, 0, 0, 0, 2)}),
    "Reshape": (node("Reshape", ["h", "a"], ["m"]), {"a": _longs(0, 8, 20, 5)}),
    "Slice": (node("Slice", ["h", "a", "b", "c"], ["m"]), {"a": _longs(2), "b": _longs(9), "c": _longs(3)}),
    "SpaceToDepth": (node("SpaceToDepth", ["h"], ["m"], blocksize=2), {}),
    "Split": (node("Split", ["h", "a"], ["m", "n"], axis=2), {"a": _longs(4, 6)}),
    "Squeeze": (node("Squeeze", ["h", "a"], ["m"]), {"a": _longs(2)}),
    "Tile": (node("Tile", ["h", "a"], ["m"]), {"a": _longs(1, 1, 2, 1)}),
    "Transpose": (node("Transpose", ["h"], ["m"], perm=[0, 1, 3, 2]), {}),
    "Unsqueeze": (node("Unsqueeze", ["h", "a"], ["m"]), {"a": _longs(4)}),
}  # fmt: skip
SEVERAL = {
    "Concat", "MaxRoiPool", "MaxUnpool", "ScatterElements", "ScatterND", "TensorScatter", "TopK", "Unique", "Where",
}  # fmt: skip
"""What has several operands or results that would share a grid: they have grids of their own, or stay real."""
RARE = {"CenterCropPad", "ReverseSequence"}
"""What no kernel for integers is known of, or what moves along the batch."""
CHANNELS = {"DepthToSpace": 2, "SpaceToDepth": 32}
"""Where the number of channels is another one behind it."""


def test_every_data_movement_operator_is_covered():
    moving = {name for name, op_def in op_defs().items() if op_def.role == "passive" and op_def.moves_data}
    assert moving == MOVING.keys() | SEVERAL | RARE


def _model(name):
    moved, constants = MOVING[name]
    more = []
    if name in ("Expand", "Flatten", "Squeeze", "Unsqueeze"):
        # A MatMul follows: its rank differs.
        shape = {"Expand": (10, 4), "Flatten": (800, 4), "Squeeze": (10, 4), "Unsqueeze": (1, 4)}[name]
        more = [node("MatMul", ["m", "p"], ["y"])]
        constants = constants | {"p": np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    if name == "Squeeze":
        more.insert(0, node("Slice", ["h", "s", "e", "d"], ["h1"]))
        moved = node("Squeeze", ["h1", "a"], ["m"])
        constants |= {"s": _longs(0), "e": _longs(1), "d": _longs(2)}
        return between(more[0], moved, more[1], last=False, **constants)
    if name in CHANNELS:
        constants = constants | {
            "w9": np.random.default_rng(1).normal(size=(6, CHANNELS[name], 1, 1)).astype(np.float32)
        }
    return between(moved, *more, last=not more, **constants)


@every("name", spread(list(MOVING), start=1))
def test_data_movement_operators_share_qparams(name):
    """Otherwise the runtime would round twice and compute floats in between."""
    made = quantized(_model(name), "onnxruntime")
    scales = [
        (float(n.operands[1].storage.numpy()), int(n.operands[2].storage.numpy()))
        for n in made.graph
        if n.op == "QuantizeLinear"
    ]
    # The input, the convolution's result, the moved value for each move, and the output.
    behind = [pair for pair in scales if pair != scales[0]]
    moves = 2 if name == "Squeeze" else 0 if name == "Identity" else 1
    assert len(set(behind[: moves + 1])) == 1
    assert len(scales) >= moves + 2


@every("name", spread(list(MOVING)))
def test_moving_integers_computes_the_specified_result(name):
    found = _model(name)
    made = quantized(found, "onnxruntime")
    check(made, lambda piece, inputs: onnxruntime.prepare(piece.graph).run(inputs))
    x = nets.samples(found, 2, seed=4)
    (said,), (computed,) = (session(made.graph, optimize=flag).run(x).values() for flag in (False, True))
    assert nets.snr(said, computed) > 60


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_padding_with_a_number_has_that_number_on_its_grid(value):
    """Zero is exact in all qparams; for another value the padded tensor has separate qparams."""
    pad = node("Pad", ["h", "a", "v"], ["m"])
    found = between(pad, a=_longs(0, 0, 2, 2, 0, 0, 2, 2), v=np.float32(value))
    made = quantized(found, "onnxruntime")
    x = nets.samples(found, 8, seed=4)
    said = session(made.graph, optimize=False).run(x)["y"]
    assert nets.snr(session(found.graph).run(x)["y"], said) > 25
