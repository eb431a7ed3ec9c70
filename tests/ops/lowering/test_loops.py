"""Stacked scan outputs of loops: the initial states of a loop without iterations."""

import numpy as np

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Value
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.ops.lowering.loops import RowStack


def initial_states(*dims):
    stack = RowStack.of(Value("row", TensorFact(DType.FLOAT32, dims)))
    states = stack.begins(Builder(Inference(), Graph("g")))
    return [state.storage.numpy() for state in states]


def test_initial_states_of_static_shape_are_empty():
    (empty,) = initial_states(3, 4)
    assert empty.shape == (0, 3, 4)


def test_a_row_of_dynamic_shape_keeps_its_static_dims():
    flat, shape = initial_states(Symbol("n", 0), 4)
    assert flat.shape == (0,)
    assert np.array_equal(shape, [0, 4])
