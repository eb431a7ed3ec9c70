from __future__ import annotations

import numpy as np
import pytest

from graphport.expression.fused.layout import layout


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("arrays", "outer", "length", "modes"),
    [
        pytest.param([zeros(4, 3, 5, 6)] * 2, [], 360, "cc", id="one axis is enough"),
        pytest.param([zeros(1, 3, 1, 1), zeros(4, 3, 50, 60)], [4, 3], 3000, "sc", id="one number a channel"),
        pytest.param([zeros(60), zeros(4, 3, 5, 60)], [60], 60, "cc", id="the last axis"),
        pytest.param([zeros(), zeros(4, 3)], [], 12, "sc", id="one number"),
        pytest.param([zeros(20, 30).T, zeros(30, 20)], [30], 20, "gc", id="transposed"),
        pytest.param([zeros(3), zeros(1000, 3)], [3], 1000, "sg", id="a short last axis is changed for a long one"),
        pytest.param([zeros(3), zeros(5, 3)], [3], 5, "sg", id="the longest of short axes"),
        pytest.param([zeros(1, 1), zeros(1, 1)], [], 1, "cc", id="a single element"),
        pytest.param([zeros(8, 20)[:, ::2], zeros(8, 10)], [], 80, "gc", id="gaps"),
    ],
)
def test_axes_are_merged(arrays, outer, length, modes):
    found = layout(arrays[-1].shape, arrays)
    assert [extent for extent, _ in found.outer] == outer
    assert found.length == length
    assert found.modes([4] * len(arrays)) == modes
