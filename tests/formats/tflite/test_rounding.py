"""A warning is reported exactly where integer kernels round differently from QuantizeLinear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import graphport as gp
from tests.formats.tflite.litert import LiteRT
from tests.formats.tflite.test_integers import SAME, X, model

if TYPE_CHECKING:
    from pathlib import Path

IMAGE, ROWS = (1, 3, 8, 8), (40, 50)
APART: dict[str, dict[str, Any]] = {
    "AVERAGE_POOL_2D": {"op": "AveragePool", "shapes": [IMAGE], "out": SAME, "kernel_shape": [2, 2]},
    "AVERAGE_POOL_2D at the edge": {"op": "AveragePool", "shapes": [IMAGE], "out": SAME, "kernel_shape": [3, 3]}
    | {"pads": [1, 1, 1, 1]},
    "RESIZE_BILINEAR": {"op": "Resize", "shapes": [IMAGE], "out": SAME, "mode": "linear", "scales": 2},
    "MEAN": {"op": "GlobalAveragePool", "shapes": [(1, 900, 4, 4)], "out": SAME},
    "ADD": {"op": "Add", "shapes": [ROWS, ROWS], "out": (2 * X[0], 1)},
    "SUB": {"op": "Sub", "shapes": [ROWS, ROWS], "out": (2 * X[0], 1)},
    "LEAKY_RELU": {"op": "LeakyRelu", "shapes": [ROWS], "alpha": 0.3, "out": (0.046, 4)},
    "HARD_SWISH": {"op": "HardSwish", "shapes": [ROWS], "out": (0.03, -110)},
}
EQUAL: dict[str, dict[str, Any]] = {
    "AVERAGE_POOL_2D": {"op": "AveragePool", "shapes": [IMAGE], "out": SAME, "kernel_shape": [3, 3]},
    "AVERAGE_POOL_2D of reals": APART["AVERAGE_POOL_2D"] | {"out": (0.083, 1)},
    "ADD": {"op": "Add", "shapes": [ROWS, ROWS], "out": (0.083, 1)},
    "ADD of whole steps": {"op": "Add", "shapes": [ROWS, ROWS], "out": SAME},
    "SOFTMAX": {"op": "Softmax", "shapes": [ROWS], "out": (1 / 256, -128)},
    "LOGISTIC": {"op": "Sigmoid", "shapes": [ROWS], "out": (1 / 256, -128)},
    "TANH": {"op": "Tanh", "shapes": [ROWS], "out": (1 / 128, 0)},
}


def steps_apart(case: dict[str, Any], run: LiteRT, path: Path) -> tuple[list[str], int]:
    """Return the codes reported for a file, and the difference of LiteRT's integers from the definition."""
    feeds = model(path, case)
    source = gp.load(path)
    told = [each.code for each in gp.save(source, path.with_suffix(".tflite"))]
    expected = gp.run(source, feeds, backend="reference")["out"]
    found = run(path.with_suffix(".tflite"), list(feeds.values()))
    assert not isinstance(found, str)
    return told, int(np.round(np.abs(found[0] - expected).max() / case["out"][0]))


def test_who_writes_is_reported_where_kernels_round_otherwise_than_the_definition(tmp_path: Path) -> None:
    with LiteRT() as run:
        for cases, told, apart in ((APART, ["TFL0306"], 1), (EQUAL, [], 0)):
            for name, case in cases.items():
                assert steps_apart(case, run, tmp_path / "m.onnx") == (told, apart), name
