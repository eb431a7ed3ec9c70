"""A constant that one file keeps in another precision is no difference; one that differs is."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.models import write_onnx
from tests.passes.cases import info, model, node


def limited(path, limit):
    nodes = [node("Sub", "x l", "d"), node("Relu", "d", "y")]
    constants = {"l": np.float32(limit)}
    return write_onnx(path, model(nodes, [info("x", [2, 3])], [info("y", None)], constants))


@pytest.mark.parametrize(
    ("limit", "differs"), [(np.nextafter(np.float32(0.3), np.float32(1)), False), (0.3001, True), (0.31, True)]
)
def test_one_ulp_in_a_constant_passes(tmp_path, limit, differs):
    assert gp.verify(limited(tmp_path / "a.onnx", 0.3), limited(tmp_path / "b.onnx", limit)).failed is differs
