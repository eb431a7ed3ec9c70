"""One pass by itself on a model: what it did, and that the model still computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

import graphport as gp
from graphport.ir.graph import Graph
from graphport.ir.verify import verify
from graphport.passes.journal import Journal
from graphport.passes.remove_dead import remove_dead
from tests.laws import canonical


def applied(
    proto: ModelProto, work: Callable[[Graph, Journal], None], feeds: Mapping[str, Any], *, exact: bool = True
) -> tuple[list[str], Journal]:
    """The operators that `work` leaves, and its journal; outputs are those of before, bit for bit where it is exact."""
    model = gp.from_onnx(proto)
    before = gp.run(model, feeds, backend="reference").ordered
    graph, journal = model.graph, Journal(room=1 << 30)
    work(graph, journal)
    verify(graph)
    remove_dead(graph, Journal())
    after = gp.run(gp.Model(canonical(graph)), feeds, backend="reference").ordered
    for one, other in zip(before, after, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return [node.op for node in graph], journal


def reasons(journal: Journal) -> list[str]:
    """Why nodes were left alone."""
    return [note.text for note in journal.left]
