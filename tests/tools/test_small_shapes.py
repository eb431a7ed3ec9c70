"""The sweep over ranks and extents finds a wrong result, and none in operators that are right."""

from __future__ import annotations

import numpy as np

from tools import small_shapes


def test_softmax_is_right_with_every_small_shape(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["small_shapes", "--only", "Softmax", "--formats", "tflite", "pt2"])
    assert small_shapes.main() == 0
    counts = dict(line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert set(counts) == {"tflite right", "pt2 right"}
    assert int(counts["tflite right"]) == int(counts["pt2 right"]) >= 8


def test_other_elements_and_shapes_are_wrong():
    expected = [np.array([1.0, np.nan])]
    found = small_shapes.Case("", None, {}, expected)
    assert small_shapes.compared(found, [np.array([1.0, np.nan])])[0] == "right"
    assert small_shapes.compared(found, [np.array([1.1, np.nan])])[0] == "wrong"
    assert small_shapes.compared(found, [np.array([[1.0, np.nan]])]) == ("wrong", "shape [1, 2], expected [2]")
    assert small_shapes.compared(found, [np.array([[1.0, np.nan]])], has_shapes=False)[0] == "right"
