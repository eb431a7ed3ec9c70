"""Keys of segments that compute the same two functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.proof.segments.formulas import formula_of


def pair_of(shape: tuple[int, ...] | None) -> Any:
    """Two files with the segment Relu(x), and the values of a run."""
    x, y = Value("x", TensorFact(DType.FLOAT32, shape)), Value("y")
    graph = Graph("main")
    graph.adopt_input(x)
    graph.append(Node("Relu", [x], [y]))
    graph.add_output(y)
    elements = np.ones(3, np.float32)
    match = SimpleNamespace(x=elements, y=elements, order=None, is_ambiguous=False, is_equal=True)
    side = SimpleNamespace(graph=graph)
    return SimpleNamespace(segment=SimpleNamespace(output=match, inputs=[match]), a=side, b=side, free=[])


def test_rank_is_part_of_the_key_and_may_be_unknown():
    assert formula_of(pair_of(None)) == formula_of(pair_of(None)) != formula_of(pair_of((3,)))
    assert formula_of(pair_of((2,))) == formula_of(pair_of((3,)))
