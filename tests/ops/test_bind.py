"""Binding open extents of inputs."""

from __future__ import annotations

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbol, parse_dim
from graphport.core.dtypes import DType
from graphport.core.facts import SequenceFact, TensorFact
from graphport.ir.graph import Graph
from graphport.ops.bind import bind, bind_inputs


def graph_with(**shapes):
    graph = Graph()
    for name, shape in shapes.items():
        dims = None if shape is None else tuple(parse_dim(dim) if isinstance(dim, str) else dim for dim in shape)
        graph.add_input(name, TensorFact(DType.FLOAT32, dims))
    return graph


def shapes_of(graph):
    return [str(value.fact) for value in graph.inputs]


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        pytest.param(["N", 3], [5, 3], "float32[5, 3]", id="a symbol"),
        pytest.param(["N", "N"], [5, 5], "float32[5, 5]", id="a symbol twice"),
        pytest.param(["N", "2*N"], [5, 10], "float32[5, 10]", id="what follows from it"),
        pytest.param(["N+1"], [5], "float32[5]", id="a formula"),
        pytest.param([4], [4], "float32[4]", id="a number again"),
        pytest.param(["N"], ["0.."], "float32[N]", id="bounds"),
        pytest.param(["N"], ["?"], "float32[N]", id="open"),
        pytest.param(["N"], ["M"], "float32[M]", id="another symbol"),
        pytest.param(["N"], [0], "float32[0]", id="nothing"),
        pytest.param([], [], "float32[]", id="rank 0"),
        pytest.param(None, [2, "H"], "float32[2, H]", id="unknown rank"),
    ],
)
def test_an_input_gets_its_shape(declared, given, expected):
    graph = graph_with(x=declared)
    bind_inputs(graph, {"x": given})
    assert shapes_of(graph) == [expected]


def test_binding_one_input_binds_the_symbol_in_all_inputs():
    graph = graph_with(x=["N", "H"], y=["N", "2*H"], z=None)
    graph.add_input("s", SequenceFact(TensorFact(DType.FLOAT32, (Symbol("H"),))))
    bind_inputs(graph, {"x": [2, 8]})
    assert shapes_of(graph) == ["float32[2, 8]", "float32[2, 16]", "float32[...]", "sequence(float32[8])"]


def test_symbols_can_be_bound_by_name():
    graph = graph_with(x=["N", "H"])
    bind(graph, {"H": 7})
    assert shapes_of(graph) == ["float32[N, 7]"]


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        pytest.param([4], [5], id="another number"),
        pytest.param(["N"], [1, 2], id="another rank"),
        pytest.param(["N", "N"], [1, 2], id="two numbers for a symbol"),
        pytest.param(["N", "2*N"], [5, 11], id="what does not follow"),
        pytest.param(["N"], [-1], id="less than nothing"),
        pytest.param(None, [-1], id="less than nothing, unknown rank"),
    ],
)
def test_a_shape_that_is_not_admitted_is_refused(declared, given):
    graph = graph_with(x=declared)
    with pytest.raises(DiagnosticError) as caught:
        bind_inputs(graph, {"x": given})
    (finding,) = caught.value.diagnostics
    assert finding.code == "SHAPE0003"
    assert str(given) in finding.message


def test_bounds_of_a_symbol_hold():
    graph = Graph()
    graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N", 1, 8),)))
    with pytest.raises(DiagnosticError, match="cannot have the shape"):
        bind_inputs(graph, {"x": [9]})


def test_all_binding_errors_are_reported_together():
    graph = graph_with(x=[4])
    graph.add_input("s", SequenceFact(TensorFact(DType.FLOAT32, (1,))))
    with pytest.raises(DiagnosticError) as caught:
        bind_inputs(graph, {"x": [5], "s": [1], "nosuch": [1]})
    assert [finding.code for finding in caught.value.diagnostics] == ["SHAPE0003"] * 3
    assert "inputs: x float32[4], s sequence(float32[1])" in str(caught.value)


def test_unspecified_dtype_is_bound():
    for given, shape in [(["int64:2", "N"], (2, Symbol("N", 1))), (["int64:K", 3], (Symbol("K", 1), 3))]:
        graph = Graph()
        graph.add_input("x", TensorFact(None, None))
        bind_inputs(graph, {"x": given})
        assert graph.inputs[0].fact == TensorFact(DType.INT64, shape)
    scalar = Graph()
    scalar.add_input("x", TensorFact(None, None))
    bind_inputs(scalar, {"x": ["bfloat16:"]})
    assert scalar.inputs[0].fact == TensorFact(DType.BFLOAT16, ())
    same = graph_with(x=["N"])
    bind_inputs(same, {"x": ["float32:5"]})
    assert same.inputs[0].fact == TensorFact(DType.FLOAT32, (5,))


def test_binding_a_different_dtype_is_rejected():
    graph = graph_with(x=["N"])
    with pytest.raises(DiagnosticError, match="cannot be int64: it is declared as float32") as caught:
        bind_inputs(graph, {"x": ["int64:5"]})
    assert "where the file leaves it open" in str(caught.value)
