"""Two files that differ only for some values, sizes, branches or iterations are told apart; equal files are not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.api.verify import side
from graphport.proof.coverage.exploration import Exploration
from graphport.proof.coverage.search import Subject
from graphport.proof.test_inputs import KINDS, accepted, choices_of_sizes, make_test_input
from tests.models import write_onnx
from tests.passes.cases import info, model, node, some

I64, BOOL = TensorProto.INT64, TensorProto.BOOL


def net(nodes, inputs, constants=None, dtype=TensorProto.FLOAT):
    constants = {name: np.asarray(array) for name, array in (constants or {}).items()}
    return model(nodes, inputs, [info("y", None, dtype)], constants, opset=20)


def real(number):
    return np.float32(number)


def clip(limit):
    return net([node("Clip", "x  high", "y")], [info("x", [4, 8])], {"high": real(limit)})


def layer_norm(epsilon):
    nodes = [node("LayerNormalization", "x g", "y", epsilon=epsilon)]
    return net(nodes, [info("x", [2, 8, 16])], {"g": np.ones(16, np.float32)})


def compared(op):
    nodes = [node(op, "x c", "m"), node("Cast", "m", "y", to=TensorProto.FLOAT)]
    return net(nodes, [info("x", [4, 8])], {"c": real(0.25)})


def rounded(is_even):
    last = [node("Round", "m", "y")] if is_even else [node("Add", "m h", "k"), node("Floor", "k", "y")]
    return net([node("Mul", "x s", "m"), *last], [info("x", [4, 8])], {"s": real(3), "h": real(0.5)})


def argmax(last):
    nodes = [node("Relu", "x", "r"), node("ArgMax", "r", "y", axis=1, select_last_index=last)]
    return net(nodes, [info("x", [8, 16])], dtype=I64)


def product(dtype):
    nodes = [node("Cast", "x", "i", to=dtype), node("Mul", "i c", "m"), node("Cast", "m", "y", to=I64)]
    constant = np.array(100_000, np.int64 if dtype == I64 else np.int32)
    return net(nodes, [info("x", [4, 8], I64)], {"c": constant}, dtype=I64)


def softmax(is_stable):
    if is_stable:
        return net([node("Softmax", "x", "y", axis=-1)], [info("x", [4, 8])])
    nodes = [node("Exp", "x", "e"), node("ReduceSum", "e a", "s"), node("Div", "e s", "y")]
    return net(nodes, [info("x", [4, 8])], {"a": np.array([-1])})


def without_nan(is_guarded):
    last = node("Where", "n z x", "y") if is_guarded else node("Identity", "x", "y")
    return net([node("IsNaN", "x", "n"), last], [info("x", [4, 8])], {"z": real(0)})


def mean_of_masked(is_guarded):
    nodes = [node("ReduceSum", "m a", "d"), node("Mul", "x m", "n"), node("ReduceSum", "n a", "s")]
    guard = [node("Equal", "d z", "e"), node("Where", "e o d", "c"), node("Div", "s c", "y")]
    nodes += guard if is_guarded else [node("Div", "s d", "y")]
    constants = {"a": np.array([1]), "z": real(0), "o": real(1)}
    return net(nodes, [info("x", [4, 8]), info("m", [4, 8])], constants)


def saturated(factor):
    nodes = [node("MatMul", "x w", "h"), node("Mul", "h k", "l"), node("Sigmoid", "l", "y")]
    return net(nodes, [info("x", [4, 8])], {"w": 100 * some(8, 6), "k": real(factor)})


def residual(is_whole):
    nodes = [node("MatMul", "x w", "h"), node("Mul", "h g", "s"), node("Add", "x s", "y")]
    nodes = nodes if is_whole else [node("Identity", "x", "y")]
    return net(nodes, [info("x", [4, 8])], {"w": some(8, 8), "g": real(1e-5)})


def branch(factor):
    then = helper.make_graph(
        [node("Mul", "x f", "t")], "then", [], [info("t", None)], [helper.make_tensor("f", 1, [], [factor])]
    )
    other = helper.make_graph([node("Identity", "x", "e")], "other", [], [info("e", None)])
    nodes = [node("ReduceMean", "x", "s", keepdims=0), node("Greater", "s c", "b")]
    nodes += [helper.make_node("If", ["b"], ["y"], then_branch=then, else_branch=other)]
    return net(nodes, [info("x", [4, 8])], {"c": real(1000)})


def loop(first_wrong, has_trip_input):
    constants = [
        helper.make_tensor("k", I64, [], [first_wrong]),
        helper.make_tensor("p", 1, [], [0.9]),
        helper.make_tensor("q", 1, [], [1.1]),
    ]
    nodes = [node("Less", "i k", "l"), node("Where", "l p q", "f"), node("Mul", "v f", "w"), node("Identity", "c", "d")]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", [], I64), info("c", [], BOOL), info("v", None)],
        [info("d", [], BOOL), info("w", None)],
        constants,
    )
    run = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    if has_trip_input:
        return net([run], [info("x", [4]), info("n", [], I64)])
    shape = [node("Shape", "x", "s", start=1, end=2), node("Squeeze", "s", "n")]
    return net([*shape, run], [info("x", ["N", "L"])])


def rows_from(limit):
    nodes = [node("Shape", "x", "s", start=0, end=1), node("Squeeze", "s", "n"), node("Range", "z n o", "i")]
    nodes += [
        node("Less", "i k", "m"),
        node("Unsqueeze", "m a", "u"),
        node("Relu", "x", "r"),
        node("Where", "u r x", "y"),
    ]
    constants = {"z": np.array(0), "o": np.array(1), "k": np.array(limit), "a": np.array([1])}
    return net(nodes, [info("x", ["N", 6])], constants)


def positions(table):
    nodes = [node("Shape", "x", "s", start=1, end=2), node("Squeeze", "s", "n"), node("Range", "z n o", "i")]
    nodes += [node("Gather", "t i", "p"), node("Add", "x p", "y")]
    return net(nodes, [info("x", ["N", "L", 4])], {"z": np.array(0), "o": np.array(1), "t": table})


def pooled(pad):
    nodes = [node("AveragePool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], auto_pad=pad)]
    return net(nodes, [info("x", [1, 1, "H", "W"])])


TABLE, OTHER_TABLE = some(40, 4), some(40, 4)
OTHER_TABLE[39] += 1

PAIRS = [
    pytest.param(clip(2000), clip(3000), id="clip limit above ordinary numbers"),
    pytest.param(layer_norm(1e-5), layer_norm(1e-4), id="epsilon"),
    pytest.param(compared("Greater"), compared("GreaterOrEqual"), id="equal operands of a comparison"),
    pytest.param(rounded(is_even=True), rounded(is_even=False), id="half steps of a scaled input"),
    pytest.param(argmax(0), argmax(1), id="ties"),
    pytest.param(product(I64), product(TensorProto.INT32), id="integers beyond 32 bits"),
    pytest.param(softmax(is_stable=True), softmax(is_stable=False), id="overflow"),
    pytest.param(without_nan(is_guarded=True), without_nan(is_guarded=False), id="NaN"),
    pytest.param(mean_of_masked(is_guarded=True), mean_of_masked(is_guarded=False), id="rows of zeros"),
    pytest.param(saturated(1), saturated(1.5), id="saturation at ordinary numbers"),
    pytest.param(residual(is_whole=True), residual(is_whole=False), id="a part below the tolerance"),
    pytest.param(branch(2), branch(6), id="branch for large means"),
    pytest.param(loop(10**6, has_trip_input=True), loop(1, has_trip_input=True), id="second iteration, trip input"),
    pytest.param(loop(10**6, has_trip_input=False), loop(20, has_trip_input=False), id="21st iteration, over a dim"),
    pytest.param(rows_from(1000), rows_from(4), id="batch from 5 on"),
    pytest.param(positions(TABLE), positions(OTHER_TABLE), id="last row of a table"),
    pytest.param(pooled("SAME_UPPER"), pooled("SAME_LOWER"), id="even sizes"),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_difference_hidden_from_random_inputs_is_found(tmp_path, a, b):
    proof = gp.verify(write_onnx(tmp_path / "a.onnx", a), write_onnx(tmp_path / "b.onnx", b))
    assert proof.failed


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_file_does_not_differ_from_itself(tmp_path, a, b):
    for number, proto in enumerate((a, b)):
        path = write_onnx(tmp_path / f"{number}.onnx", proto)
        assert not list(explored(path, path).findings())


def batchnorm(is_folded):
    x, mean, variance = info("x", ["N", 3, 5, 5]), 0.3 * some(4), np.abs(some(4)) + 0.5
    scale = some(4) / np.sqrt(variance + 1e-5)
    if is_folded:
        weights = {"w": some(4, 3, 3, 3) * scale[:, None, None, None], "b": -mean * scale}
        return net([node("Conv", "x w b", "y")], [x], {k: v.astype(np.float32) for k, v in weights.items()})
    constants = {"w": some(4, 3, 3, 3), "s": some(4), "o": np.zeros(4, np.float32), "m": mean, "v": variance}
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s o m v", "y")]
    return net(nodes, [x], {k: v.astype(np.float32) for k, v in constants.items()})


def gelu(is_decomposed):
    nodes = [node("Mul", "x r", "a"), node("Erf", "a", "e"), node("Add", "e o", "p"), node("Mul", "x p", "q")]
    nodes += [node("Mul", "q h", "y")]
    constants = {"r": real(0.5**0.5), "o": real(1), "h": real(0.5)} if is_decomposed else {}
    return net(nodes if is_decomposed else [node("Gelu", "x", "y")], [info("x", [4, 8])], constants)


def scores(is_sum):
    """A sum in two orders, of which the largest element is looked for."""
    nodes = (
        [node("Add", "x v", "p"), node("Add", "p w", "q")]
        if is_sum
        else [node("Add", "v w", "p"), node("Add", "x p", "q")]
    )
    return net(
        [*nodes, node("ArgMax", "q", "y", axis=1)], [info("x", [4, 8])], {"v": some(8), "w": some(4, 8)}, dtype=I64
    )


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(batchnorm, id="folded batch normalization"),
        pytest.param(gelu, id="decomposed Gelu"),
        pytest.param(scores, id="sums in another order, and ArgMax"),
    ],
)
def test_rounding_is_no_difference(tmp_path, make):
    paths = [write_onnx(tmp_path / f"{flag}.onnx", make(flag)) for flag in (False, True)]
    assert not list(explored(*paths).findings())
    assert gp.verify(*paths).passed


def explored(a, b, seconds=20):
    """An exploration of two files with the standard test inputs."""
    first, second = (side(letter, gp.load(path)).graph for letter, path in (("a", a), ("b", b)))
    inputs = []
    for choices in choices_of_sizes(first, {}):
        sizes = next(accepted(first, choices))
        inputs += [make_test_input(first, kind, sizes, seed) for seed, kind in enumerate(KINDS)]
    found = Exploration.of(first, second, inputs, seconds=seconds)
    assert found is not None
    list(found.further_inputs())
    return found


def test_standard_and_further_inputs_reach_both_branches(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", branch(2))
    coverage = explored(path, path).coverage()
    assert coverage.complete
    assert coverage.branches == {"then branch of If 'y'", "else branch of If 'y'"}


def test_equal_graphs_are_computed_once(tmp_path, monkeypatch):
    computed = []
    subject_of = Subject.of
    monkeypatch.setattr(Subject, "of", lambda *given: computed.append(given[0]) or subject_of(*given))
    path = write_onnx(tmp_path / "a.onnx", branch(2.0))
    gp.save(gp.load(path), tmp_path / "b.onnx")
    proof = gp.verify(path, tmp_path / "b.onnx")
    assert proof.verdict == "verified"
    assert len(computed) == 1
    assert gp.verify(path, write_onnx(tmp_path / "other.onnx", branch(3.0))).failed
    assert len(computed) > 1


def test_iterations_of_a_loop_are_counted(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", loop(2, has_trip_input=True))
    coverage = explored(path, path).coverage()
    assert coverage.complete
    assert {0, 1, 2} < coverage.iterations["body of Loop 'y'"]


def test_a_limit_that_no_input_reaches_is_reported(tmp_path):
    # The elements of a normalized row of 16 are at most 4.
    nodes = [node("LayerNormalization", "x g", "n"), node("Clip", "n low high", "y")]
    constants = {"g": np.ones(16, np.float32), "low": real(-6), "high": real(3)}
    path = write_onnx(tmp_path / "net.onnx", net(nodes, [info("x", [2, 8, 16])], constants))
    assert explored(path, path).coverage().never == ("lower limit of Clip 'y'",)


def test_dynamic_length_reaches_all_rows_of_a_table(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", positions(TABLE))
    found = explored(path, path)
    assert found.coverage().branches == {"rows of 't'"}
    assert any(sizes["L"] == 40 for sizes in found.coverage().sizes)


def test_index_inputs_reach_all_rows_of_a_table(tmp_path):
    proto = net([node("Gather", "t ids", "y")], [info("ids", ["N", 3], I64)], {"t": some(200, 4)})
    path = write_onnx(tmp_path / "net.onnx", proto)
    coverage = explored(path, path).coverage()
    assert coverage.branches == {"rows of 't'"}
    assert all(sizes["N"] < 100 for sizes in coverage.sizes)


def test_choices_that_are_the_same_in_every_run_are_no_parts(tmp_path):
    # How exporters write Expand: a shape whose elements of -1 are taken from another one.
    nodes = [node("Equal", "s m", "e"), node("Where", "e o s", "t"), node("Expand", "x t", "y")]
    constants = {"s": np.array([2, -1]), "m": np.array(-1), "o": np.array([1, 1])}
    path = write_onnx(tmp_path / "net.onnx", net(nodes, [info("x", [1, 4])], constants))
    coverage = explored(path, path).coverage()
    assert coverage.complete
    assert not coverage.branches


def test_an_input_with_an_undefined_result_is_not_counted(tmp_path):
    nodes = [node("Cast", "x", "i", to=TensorProto.INT8), node("Cast", "i", "y", to=TensorProto.FLOAT)]
    path = write_onnx(tmp_path / "net.onnx", net(nodes, [info("x", [4, 8])]))
    found = explored(path, path)
    budget = found.search.budget
    assert found.search.a.run({"x": np.full((4, 8), 100, np.float32)}, budget) is not None
    assert found.search.a.run({"x": np.full((4, 8), 1000, np.float32)}, budget) is None


def test_the_budget_of_a_search_ends_it(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", residual(is_whole=True))
    tried: list[int] = []
    for seconds in (1.2e-3, 1.0):
        found = explored(path, path, seconds=seconds)
        assert not list(found.findings())
        tried.append(found.search.tried)
    assert 3 <= tried[0] < tried[1]


def large(has_limit):
    """A convolution that takes longer than a search may."""
    last = [node("Tanh", "c", "t"), node("Clip", "t low high", "y")] if has_limit else [node("Relu", "c", "y")]
    constants = {"w": some(64, 64, 3, 3), "low": real(-0.5), "high": real(2)}
    return net([node("Conv", "x w", "c", pads=[1] * 4), *last], [info("x", [1, 64, 96, 96])], constants)


def test_the_parts_of_a_large_graph_are_seen_by_probes(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", large(has_limit=True))
    coverage = explored(path, path, seconds=0.5).coverage()
    assert coverage.branches == {"lower limit of Clip 'y'"}
    assert coverage.never == ("upper limit of Clip 'y'",)


def test_a_large_graph_without_choices_is_covered(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", large(has_limit=False))
    found = explored(path, path, seconds=0.5)
    assert found.search.b is None
    assert found.coverage().complete


def test_difference_in_one_row_of_a_large_table_is_found(tmp_path):
    changed = some(20_000, 2)
    changed[12_345] += 1
    tables = (some(20_000, 2), changed)
    protos = [net([node("Gather", "t ids", "y")], [info("ids", [1, 16], I64)], {"t": table}) for table in tables]
    paths = [write_onnx(tmp_path / f"{number}.onnx", proto) for number, proto in enumerate(protos)]
    assert gp.verify(*paths).failed


def test_inputs_set_topk_k_to_at_least_1(tmp_path):
    proto = net(
        [node("TopK", "x k", "v i", axis=1), node("Identity", "v", "y")], [info("x", [3, 4]), info("k", [1], I64)]
    )
    graph = side("a", gp.load(write_onnx(tmp_path / "net.onnx", proto))).graph
    counts = [make_test_input(graph, kind, {}, seed).arrays["k"] for kind in KINDS for seed in range(20)]
    assert set(np.concatenate(counts).tolist()) == {1, 2, 3, 4}
