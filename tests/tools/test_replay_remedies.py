"""Remedies are replayed: a cut at a value of the model is true, one at another name is false."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, helper

import graphport as gp
from tests.models import model, node, write_onnx
from tools import replay_remedies

if TYPE_CHECKING:
    from pathlib import Path


def scores() -> ModelProto:
    """A linear model whose scores become a map."""
    proto = model(
        [
            node("MatMul", ["x", "w"], ["s"]),
            node("ZipMap", ["s"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
        ],
        [("x", [1, 3])],
        [("s", [1, 2])],
        {"w": np.ones((3, 2), np.float32)},
    )
    proto.graph.output.append(helper.make_empty_tensor_value_info("y"))
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return proto


def test_a_cut_before_an_unsupported_operator_is_true(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", scores())
    found = list(replay_remedies.replay(path))
    assert {"openvino", "tflite"} <= {format for format, _, _ in found}
    assert all(kind == "cut" and not fault for _, kind, fault in found)


def test_a_cut_at_another_name_is_false(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", scores())
    loaded = gp.load(path)
    (finding, *_) = replay_remedies._refusals(loaded, "openvino")
    wrong = replace(finding, help=re.sub("--to s", "--to t", finding.help or ""))
    ((_, again),) = replay_remedies._remedies(path, loaded, wrong)
    assert "EDIT0001" in replay_remedies._fault(wrong, "openvino", again)
