"""Inputs whose open extents have one number in every run that succeeds are given it."""

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.nnef.graph_passes import tract
from graphport.formats.nnef.graph_passes.input_shapes import settle_inputs
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.infer import Inference


def reshaped():
    graph = Graph()
    extent, other = (graph.extents.declare(name) for name in "ST")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, extent, 16, other)))
    graph.add_input("unknown", UNKNOWN)
    first = graph.add_input("y", TensorFact(DType.FLOAT32, (extent, 16)))
    builder = Builder(Inference(), graph)
    graph.set_outputs([x, builder(Reshape, first, builder.constant([8, 12]))])
    Inference().graph(graph)
    return graph, other


def test_an_extent_of_which_one_number_is_left_is_that():
    for settle in (settle_inputs, tract.before_export):
        graph, other = reshaped()
        settle(graph)
        assert [value.fact for value in graph.inputs] == [
            TensorFact(DType.FLOAT32, (2, 6, 16, other)),
            UNKNOWN,
            TensorFact(DType.FLOAT32, (6, 16)),
        ]


def test_known_and_dynamic_dims_keep_their_fact():
    graph, _ = reshaped()
    settle_inputs(graph)
    before = [value.fact for value in graph.inputs]
    settle_inputs(graph)
    assert all(one is other for one, other in zip(before, [value.fact for value in graph.inputs], strict=True))
