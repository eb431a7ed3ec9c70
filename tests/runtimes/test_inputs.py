"""Inputs of a run: accepted ones, lossless conversions, and random inputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbol, parse_dim
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, SequenceFact, TensorFact
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.bind import bind, bind_inputs
from graphport.proof.test_inputs import bytes_of_inputs, make_test_input
from graphport.quantization.random_inputs import random_inputs_at
from graphport.runtimes import inputs, memory
from graphport.runtimes.inputs import checked, free_sizes, other_random_inputs, random_inputs
from tests.models import model, node, perceptron, typed


def graph_with(**facts):
    graph = Graph()
    for name, (dtype, shape) in facts.items():
        dims = None if shape is None else tuple(parse_dim(dim) if isinstance(dim, str) else dim for dim in shape)
        graph.add_input(name, TensorFact(dtype, dims))
    return graph


def codes(graph, given):
    with pytest.raises(DiagnosticError) as caught:
        checked(graph, given)
    return [finding.code for finding in caught.value.diagnostics]


# Names and shapes


def test_all_input_errors_are_reported_together():
    graph = graph_with(x=(DType.FLOAT32, [2]), y=(DType.FLOAT32, [2]), z=(DType.INT32, [2]))
    given = {"x": np.zeros(3, np.float32), "z": np.array([0.5, 1]), "other": np.zeros(1)}
    assert codes(graph, given) == ["RUN0006", "RUN0008", "RUN0006", "RUN0007"]


@pytest.mark.parametrize(
    ("declared", "shapes"),
    [
        pytest.param({"x": ["N", 3]}, {"x": (7, 3)}, id="a symbol"),
        pytest.param({"x": ["N"], "y": ["N"]}, {"x": (2,), "y": (2,)}, id="a symbol twice"),
        pytest.param({"x": ["N"], "y": ["2*N"]}, {"x": (2,), "y": (4,)}, id="a formula"),
        pytest.param({"x": None}, {"x": (1, 2, 3)}, id="unknown rank"),
        pytest.param({"x": []}, {"x": ()}, id="a scalar"),
        pytest.param({"x": ["N"]}, {"x": (0,)}, id="nothing"),
    ],
)
def test_shapes_that_fit(declared, shapes):
    graph = graph_with(**{name: (DType.FLOAT32, dims) for name, dims in declared.items()})
    found = checked(graph, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    assert {name: array.shape for name, array in found.items()} == shapes


@pytest.mark.parametrize(
    ("declared", "shapes"),
    [
        pytest.param({"x": ["N", 3]}, {"x": (7, 4)}, id="a number"),
        pytest.param({"x": ["N", 3]}, {"x": (3,)}, id="the rank"),
        pytest.param({"x": ["N"], "y": ["N"]}, {"x": (2,), "y": (3,)}, id="a symbol twice"),
        pytest.param({"x": ["N"], "y": ["2*N"]}, {"x": (2,), "y": (5,)}, id="a formula"),
    ],
)
def test_shapes_that_do_not_fit(declared, shapes):
    graph = graph_with(**{name: (DType.FLOAT32, dims) for name, dims in declared.items()})
    assert codes(graph, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}) == ["RUN0008"]


def test_bounds_of_symbols_hold():
    graph = Graph()
    graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N", 2, 4),)))
    assert codes(graph, {"x": np.zeros(1, np.float32)}) == ["RUN0008"]
    assert codes(graph, {"x": np.zeros(5, np.float32)}) == ["RUN0008"]
    checked(graph, {"x": np.zeros(3, np.float32)})


def graph_with_a_definition():
    """Return a graph in which one input is three times as long as another, by a symbol's definition."""
    graph = Graph()
    length = graph.extents.define("T2", 3 * Symbol("T"))
    for name, dim in (("x", Symbol("T")), ("y", length)):
        graph.add_input(name, TensorFact(DType.FLOAT32, (1, dim)))
    graph.set_outputs([graph.inputs[0]])
    return graph


def test_inputs_must_satisfy_symbol_definitions():
    graph = graph_with_a_definition()
    fitting = {"x": np.zeros((1, 2), np.float32), "y": np.zeros((1, 6), np.float32)}
    assert checked(graph, fitting).keys() == {"x", "y"}
    assert codes(graph, fitting | {"y": np.zeros((1, 5), np.float32)}) == ["RUN0008"]


def test_generated_inputs_satisfy_symbol_definitions():
    graph = graph_with_a_definition()
    assert free_sizes(graph) == {"T": 2}
    shapes = [
        {name: array.shape for name, array in found.items()}
        for found in (
            random_inputs(graph),
            make_test_input(graph, "normal", {"T": 5}, 0).arrays,
            random_inputs_at(graph, 7),
        )
    ]
    assert shapes == [{"x": (1, n), "y": (1, 3 * n)} for n in (2, 5, 7)]
    assert bytes_of_inputs(graph, {"T": 5}) == 80
    bind(graph, {"T": 4})
    assert [value.fact for value in graph.inputs] == [TensorFact(DType.FLOAT32, (1, n)) for n in (4, 12)]


def test_sequences_are_converted_item_by_item():
    graph = Graph()
    graph.add_input("s", SequenceFact(TensorFact(DType.FLOAT32, None)))
    found = checked(graph, {"s": [np.array([1, 2]), np.array([3.0])]})["s"]
    assert [item.dtype for item in found] == [np.float32, np.float32]


# Element types


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        pytest.param(DType.FLOAT32, np.array([1, 2]), id="integers for floats"),
        pytest.param(DType.FLOAT32, np.array([0.5, np.nan, np.inf, -0.0]), id="float64 for float32"),
        pytest.param(DType.FLOAT32, np.array([True, False]), id="bools for floats"),
        pytest.param(DType.INT64, np.array([1.0, -2.0]), id="whole floats for integers"),
        pytest.param(DType.UINT8, np.array([0, 255]), id="a narrower integer"),
        pytest.param(DType.BOOL, np.array([0, 1]), id="0 and 1 for bools"),
        pytest.param(DType.FLOAT32, np.array([1 + 0j]), id="complex numbers without imaginary part"),
        pytest.param(DType.COMPLEX64, np.array([1.5]), id="floats for complex"),
        pytest.param(DType.BFLOAT16, np.array([0.5, np.nan], np.float32), id="float32 for bfloat16"),
        pytest.param(DType.FLOAT32, np.array([0.5, np.nan], DType.BFLOAT16.numpy), id="bfloat16 for float32"),
        pytest.param(DType.INT4, np.array([-8, 7], np.int8), id="bytes for nibbles"),
        pytest.param(DType.FLOAT8E4M3FN, np.array([448.0]), id="float64 for float8"),
        pytest.param(DType.FLOAT32, [1, 2], id="a list"),
    ],
)
def test_lossless_input_conversion_is_applied(dtype, given):
    found = checked(graph_with(x=(dtype, ["N"])), {"x": given})["x"]
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found.astype(np.complex128), np.asarray(given).astype(np.complex128))


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        pytest.param(DType.FLOAT32, np.array([0.1]), id="what float32 rounds"),
        pytest.param(DType.FLOAT32, np.array([1e300]), id="what float32 does not reach"),
        pytest.param(DType.FLOAT32, np.array([2**24 + 1]), id="an integer that float32 rounds"),
        pytest.param(DType.FLOAT64, np.array([2**53 + 1]), id="an integer that float64 rounds"),
        pytest.param(DType.INT32, np.array([0.5]), id="half an integer"),
        pytest.param(DType.INT32, np.array([np.nan]), id="NaN for an integer"),
        pytest.param(DType.UINT8, np.array([256]), id="too large"),
        pytest.param(DType.UINT8, np.array([-1]), id="negative"),
        pytest.param(DType.UINT8, np.array([-1], np.int8), id="negative, of the same width"),
        pytest.param(DType.INT64, np.array([2**64 - 1], np.uint64), id="too large, of the same width"),
        pytest.param(DType.FLOAT64, np.array([2**64 - 1], np.uint64), id="the largest integer as a float"),
        pytest.param(DType.BOOL, np.array([2]), id="neither 0 nor 1"),
        pytest.param(DType.INT4, np.array([8], np.int8), id="no nibble"),
        pytest.param(DType.FLOAT8E4M3FN, np.array([449.0]), id="what float8 rounds"),
        pytest.param(DType.FLOAT8E8M0, np.array([0], np.int8), id="0, which float8_e8m0 has not"),
        pytest.param(DType.FLOAT16, np.array([-(2**63)]), id="the lowest integer, which is infinite in float16"),
        pytest.param(DType.FLOAT32, np.array([1j]), id="imaginary"),
        pytest.param(DType.FLOAT32, np.array(["1"]), id="text"),
        pytest.param(DType.FLOAT32, np.array([{}], object), id="objects"),
    ],
)
def test_lossy_input_conversion_is_rejected(dtype, given):
    assert codes(graph_with(x=(dtype, ["N"])), {"x": given}) == ["RUN0007"]


@given(
    arrays.arrays(st.sampled_from([np.float64, np.float32, np.int64, np.uint64, np.int8, np.bool_]), st.integers(0, 3)),
    st.sampled_from([dtype for dtype in DType if dtype is not DType.STRING]),
)
def test_a_conversion_that_is_done_can_be_undone(array, dtype):
    graph = graph_with(x=(dtype, ["N"]))
    try:
        found = checked(graph, {"x": array})["x"]
    except DiagnosticError:
        return
    assert found.dtype == dtype.numpy
    exact = found if dtype.is_integer and dtype.bits == 64 else found.astype(np.complex128)
    for before, after in zip(array.tolist(), exact.tolist(), strict=True):
        assert before == after or (np.isnan(before) and np.isnan(after))


def test_fixed_width_strings_are_converted():
    found = checked(graph_with(x=(DType.STRING, [2])), {"x": np.array(["a", "bc"])})["x"]
    assert found.dtype == object


# Made up


def test_numbers_are_those_of_the_contract():
    graph = graph_with(
        f=(DType.FLOAT32, [500]),
        i=(DType.INT32, [500]),
        b=(DType.BOOL, [500]),
        u=(DType.UINT4, [500]),
        s=(DType.STRING, [2]),
        c=(DType.COMPLEX64, [500]),
    )
    found = random_inputs(graph)
    assert {name: DType.of(array.dtype) for name, array in found.items()} == {
        "f": DType.FLOAT32,
        "i": DType.INT32,
        "b": DType.BOOL,
        "u": DType.UINT4,
        "s": DType.STRING,
        "c": DType.COMPLEX64,
    }
    assert abs(found["f"].mean()) < 0.2
    assert abs(found["f"].std() - 1) < 0.2
    assert set(found["i"].tolist()) == {0, 1}
    assert 0.3 < found["b"].mean() < 0.7
    assert set(found["u"].astype(int).tolist()) == {0, 1}
    assert checked(graph, found).keys() == found.keys()


def test_they_are_the_same_every_time():
    graph = graph_with(x=(DType.FLOAT32, [10]))
    np.testing.assert_array_equal(random_inputs(graph)["x"], random_inputs(graph)["x"])
    assert (random_inputs(graph, seed=1)["x"] != random_inputs(graph)["x"]).any()


def sizes_of(proto):
    return free_sizes(legalize(from_proto(proto))[0])


def test_a_batch_is_1():
    assert sizes_of(perceptron()) == {"N": 1}


def test_other_axes_are_twice_the_least_length_that_is_accepted():
    proto = model(
        [node("Conv", ["x", "w"], ["y"])],
        [("x", ["N", 1, "H", "W"])],
        [("y", None)],
        {"w": np.ones((1, 1, 5, 3), np.float32)},
    )
    assert sizes_of(proto) == {"N": 1, "H": 10, "W": 10}


def test_sizes_required_by_weights_are_inferred():
    """Channels, and the rows after Flatten, of an input of which only the rank is known."""
    constants = {"w": np.ones((4, 3, 5, 5), np.float32), "v": np.ones((4, 7), np.float32)}
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("GlobalAveragePool", ["c"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "v"], ["y"]),
    ]
    graph, _ = legalize(from_proto(model(nodes, [("x", ["N", "C", "H", "W"])], [("y", None)], constants)))
    assert free_sizes(graph) == {"N": 1, "C": 3, "H": 10, "W": 10}


def test_dim_with_one_valid_size_gets_that_size():
    constants = {"s": np.array([0, 16]), "w": np.ones((16, 2), np.float32)}
    nodes = [node("Reshape", ["x", "s"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    proto = model(nodes, [("x", [1, "H"])], [("y", None)], constants)
    assert sizes_of(proto) == {"H": 16}


def test_generated_sizes_respect_symbol_bounds():
    graph = Graph()
    graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N", 3), Symbol("H", 5, 7))))
    assert free_sizes(graph) == {"N": 3, "H": 5}


def test_an_axis_that_admits_no_length_is_reported(monkeypatch):
    monkeypatch.setattr(inputs, "LONGEST", 8)
    constants = {"v": np.ones((16, 2), np.float32), "w": np.ones((12, 2), np.float32)}
    nodes = [node("MatMul", ["x", "v"], ["y"]), node("MatMul", ["x", "w"], ["z"])]
    graph, _ = legalize(from_proto(model(nodes, [("x", [1, "H"])], [("y", None), ("z", None)], constants)))
    with pytest.raises(DiagnosticError) as caught:
        random_inputs(graph)
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.help) == ("RUN0009", "set them with --input NAME=SHAPE")


@pytest.mark.parametrize(
    "fact",
    [
        TensorFact(DType.FLOAT32, None),
        TensorFact(None, (1,)),
        SequenceFact(TensorFact(DType.FLOAT32, (1,))),
    ],
    ids=str,
)
def test_inputs_of_unknown_type_or_rank_are_reported(fact):
    graph = Graph()
    graph.add_input("x", fact)
    with pytest.raises(DiagnosticError) as caught:
        random_inputs(graph)
    assert caught.value.diagnostics[0].code == "RUN0009"


def windowed() -> onnx.ModelProto:
    """Bodies with a window of 100 elements, and with a state whose middle axis has to be 1."""

    def branch(name: str) -> onnx.GraphProto:
        body = [node("Conv", ["x", "w"], [f"{name}c"]), node("Concat", [f"{name}c", "s"], [name], axis=2)]
        return onnx.helper.make_graph(body, name, [], [typed(name, None)])

    nodes = [
        node("ReduceMin", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["k"], to=onnx.TensorProto.BOOL),
        node("If", ["k"], ["y"], then_branch=branch("a"), else_branch=branch("b")),
    ]
    return model(
        nodes, [("x", ["N", 1, "L"]), ("s", [1, "M", 1])], [("y", None)], {"w": np.ones((1, 1, 100), np.float32)}
    )


def test_sizes_accepted_by_bodies_are_tried_next():
    graph, _ = legalize(from_proto(windowed()))
    assert free_sizes(graph)["L"] < 100
    first = next(other_random_inputs(graph))
    assert {name: array.shape for name, array in first.items()} == {"x": (1, 1, 128), "s": (1, 1, 1)}


def test_verification_retries_with_other_sizes():
    _, report = gp.simplify(gp.from_onnx(windowed()))
    assert report.skipped is None
    assert report.passed


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        pytest.param((1 << 40, 1 << 22), "exceed the addressable memory", id="huge"),
        pytest.param((0, 1 << 62, 2), "exceed the addressable memory", id="huge beside nothing"),
        pytest.param((1,) * 65, "rank 65", id="many axes"),
    ],
)
def test_shape_too_large_for_an_array_is_rejected(shape, words):
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, shape))
    graph.add_output(graph.append(Node("Abs", [x], [Value("y", x.fact)])).output)
    with pytest.raises(DiagnosticError, match=words) as refused:
        random_inputs(graph)
    assert [finding.code for finding in refused.value.diagnostics] == ["RUN0009"]
    document = gp.verify(gp.Model(graph), gp.Model(graph))
    assert words in document.unproven


def test_unspecified_input_dtype_suggests_passing_an_array():
    graph = Graph()
    graph.add_input("x", TensorFact(None, (1, 8)))
    with pytest.raises(DiagnosticError) as caught:
        random_inputs(graph)
    assert "pass an array" in (caught.value.diagnostics[0].help or "")
    bind_inputs(graph, {"x": ["int64:1", 8]})
    assert random_inputs(graph)["x"].dtype == np.int64


def test_inputs_larger_than_free_memory_are_not_generated(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 1 << 20)
    with pytest.raises(DiagnosticError, match="a run needs about 11 MiB of memory, 0 MiB are available"):
        random_inputs(graph_with(x=(DType.FLOAT32, (1000, 1000))))


def test_signal_axis_is_at_least_one_frame_long():
    def graph_of(length):
        signal, y = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", ["N"]), ("y", None)))
        nodes = [node("Unsqueeze", ["x", "ends"], ["s"]), node("STFT", ["s", "step", "window"], ["y"])]
        constants = {"ends": np.array([0, 2]), "step": np.array(4), "window": np.ones(length, np.float32)}
        tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
        graph = onnx.helper.make_graph(nodes, "signal", [signal], [y], tensors)
        return legalize(from_proto(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])))[0]

    assert free_sizes(graph_of(8)) == {"N": 16}
    assert free_sizes(graph_of(1)) == {"N": 1}


def test_mask_length_is_the_sum_of_past_and_tokens():
    graph = Graph()
    lengths = {name: Symbol(name) for name in ("past", "tokens", "total")}
    facts = {name: TensorFact(DType.FLOAT32, (2, length)) for name, length in lengths.items()}
    past, tokens, total = (graph.add_input(name, fact) for name, fact in facts.items())
    both = graph.append(Node("Concat", [past, tokens], [Value("both", UNKNOWN)], {"axis": 1})).output
    square = graph.append(Node("Transpose", [both], [Value("turned", UNKNOWN)], {"perm": (1, 0)})).output
    graph.add_output(graph.append(Node("MatMul", [total, square], [Value("y", UNKNOWN)])).output)
    sizes = free_sizes(graph)
    assert sizes["total"] == sizes["past"] + sizes["tokens"]
