"""Operators that return their operand unchanged are removed; required ones are not."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.facts import UNKNOWN
from graphport.passes.journal import Journal
from graphport.passes.remove_noops import remove_noops
from tests.every import every
from tests.passes.alone import X, done, read, reasons
from tests.passes.cases import I64, B, info, model, node


@every(
    ("last", "constants", "goes"),
    [
        (node("Identity", "x", "h"), {}, True),
        (node("Dropout", "x", "h"), {}, True),
        (node("Cast", "x", "h", to=1), {}, True),
        (node("Reshape", "x s", "h"), {"s": [2, 3, 4]}, True),
        (node("Reshape", "x s", "h"), {"s": [0, -1, 4]}, True),
        (node("Reshape", "x s", "h"), {"s": [3, 2, 4]}, False),
        (node("Flatten", "x", "h", axis=1), {}, False),
        (node("Expand", "x s", "h"), {"s": [3, 1]}, True),
        (node("Expand", "x s", "h"), {"s": [5, 1, 1, 1]}, False),
        (node("Tile", "x s", "h"), {"s": [1, 1, 1]}, True),
        (node("Tile", "x s", "h"), {"s": [1, 2, 1]}, False),
        (node("Transpose", "x", "h", perm=[0, 1, 2]), {}, True),
        (node("Transpose", "x", "h", perm=[0, 2, 1]), {}, False),
        (node("Transpose", "x", "h"), {}, False),
        (node("Pad", "x s", "h"), {"s": [0] * 6}, True),
        (node("Pad", "x s", "h"), {"s": [0, 0, 0, 0, 0, 1]}, False),
        (node("Pad", "x s", "h"), {"s": [0, 0, -1, 0, 0, 1]}, False),
        (node("Slice", "x a b", "h"), {"a": [0, 0], "b": [2, 3]}, True),
        (node("Slice", "x a b", "h"), {"a": [0, 0], "b": [2, 2]}, False),
        (node("Slice", "x a b", "h"), {"a": [0, 1], "b": [2, 3]}, False),
        (node("Slice", "x a b", "h"), {"a": [0], "b": [(1 << 31) - 1]}, True),
        (node("Slice", "x a b s", "h"), {"a": [0], "b": [4], "s": [2]}, True),
        (node("Slice", "x a b s", "h"), {"a": [0], "b": [3], "s": [2]}, False),
        (node("Slice", "x a b s", "h"), {"a": [0], "b": [4], "s": [-1]}, True),
        (node("Slice", "x a b s t", "h"), {"a": [0], "b": [4], "s": [2], "t": [1]}, True),
        (node("Slice", "x a b s t", "h"), {"a": [0], "b": [4], "s": [2], "t": [2]}, False),
        (node("Slice", "x a b", "h"), {"a": [0], "b": [-1]}, False),
        (node("Concat", "x", "h", axis=1), {}, True),
        (node("Concat", "x x", "h", axis=1), {}, False),
        *[(node(op, "x", "h"), {}, True) for op in ("Sum", "Max", "Min", "Mean")],
        *[(node(op, "x x", "h"), {}, False) for op in ("Sum", "Max", "Min", "Mean")],
        (node("Split", "x", "h", axis=1, num_outputs=1), {}, True),
        (node("Split", "x", "h k", axis=0, num_outputs=2), {}, False),
        (node("Unsqueeze", "x s", "h"), {"s": [0]}, False),
    ],
    ids=lambda each: each.op_type if hasattr(each, "op_type") else str(each),
)
def test_operators_without_effect_are_removed(last, constants, goes):
    ops, journal = done(remove_noops, [last, node("Relu", "h", "y")], **constants)
    assert ops == (["Relu"] if goes else [last.op_type, "Relu"])
    assert [note.text for note in journal.done] == (["removed: its result equals x"] if goes else [])


def test_transpose_without_perm_is_removed_up_to_rank_1():
    for shape, goes in (((4,), True), ((), True), ((2, 4), False)):
        ops, _ = done(remove_noops, [node("Transpose", "x", "h"), node("Relu", "h", "y")], (("x", shape),))
        assert (ops == ["Relu"]) is goes
    graph = read([node("Transpose", "x", "h"), node("Relu", "h", "y")], (("x", None),))
    remove_noops(graph, Journal())
    assert len(graph) == 2


def test_nodes_with_unknown_facts_are_kept():
    for nodes in (
        [node("Reshape", "x s", "h"), node("Relu", "h", "y")],
        [node("Cast", "x", "h", to=1), node("Relu", "h", "y")],
        [node("Pad", "x s", "h"), node("Relu", "h", "y")],
    ):
        graph = gp.from_onnx(model(nodes, [info("x", X), info("s", [6], I64)], [info("y", None)], opset=18)).graph
        for value in graph.values():
            value.fact = UNKNOWN
        remove_noops(graph, Journal())
        assert len(graph) == 2
    nodes = [node("Slice", "x a b", "h"), node("Relu", "h", "y")]
    for given in ({"a": np.array([0])}, {"b": np.array([2])}):
        inputs = [info("x", X), *[info(name, [1], I64) for name in "ab" if name not in given]]
        graph = gp.from_onnx(model(nodes, inputs, [info("y", None)], given, opset=18)).graph
        remove_noops(graph, Journal())
        assert len(graph) == 2
    graph = read(nodes, (("x", ("N", 3)),), a=np.array([0]), b=np.array([5]))
    remove_noops(graph, Journal())
    assert len(graph) == 2


def test_names_that_the_graph_has_to_keep():
    ops, journal = done(remove_noops, [node("Identity", "x", "y")])
    assert (ops, reasons(journal)) == (["Identity"], ["it separates two public names"])


@pytest.mark.parametrize(
    ("ratio", "trains", "reason"),
    [
        (0.5, False, None),
        (0.0, True, None),
        (0.5, True, "it is in training mode"),
        (None, True, "it is in training mode"),
    ],
)
def test_dropout_in_training_stays(ratio, trains, reason):
    constants = {"t": np.array(trains)} | ({} if ratio is None else {"r": np.float32(ratio)})
    nodes = [node("Dropout", f"x {'_' if ratio is None else 'r'} t", "h"), node("Relu", "h", "y")]
    graph, journal = read(nodes, **constants), Journal()
    remove_noops(graph, journal)
    assert (len(graph), reasons(journal)) == (1, []) if reason is None else (2, [reason])


def test_dropout_of_which_that_is_computed_stays():
    nodes = [node("Dropout", "x r c", "h"), node("Relu", "h", "y")]
    proto = model(nodes, [info("x", X), info("c", [], B)], [info("y", None)], {"r": np.float32(0.5)}, opset=18)
    graph, journal = gp.from_onnx(proto).graph, Journal()
    remove_noops(graph, journal)
    assert (len(graph), reasons(journal)) == (2, ["training_mode is computed"])


def test_used_dropout_mask_becomes_a_tensor_of_true():
    nodes = [node("Dropout", "x", "h m"), node("Where", "m h z", "y")]
    ops, _ = done(remove_noops, nodes, z=np.float32(7))
    assert ops == ["Shape", "ConstantOfShape", "Where"]
    ops, _ = done(remove_noops, [node("Dropout", "x", "h m"), node("Relu", "h", "y")])
    assert ops == ["Relu"]


def _indices(kind: str, shape: tuple[int, ...], axis: int) -> np.ndarray:
    match kind:
        case "Gather":
            return np.arange(shape[axis])
        case "GatherElements" | "ScatterElements":
            along = np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))])
            return np.broadcast_to(along, shape).copy()
        case _:
            return np.stack(np.indices(shape[: axis + 1]), axis=-1)


@every("kind", ["Gather", "GatherND", "GatherElements", "ScatterND", "ScatterElements"])
@every("axis", [0, 1, 2])
@every("change", ["none", "one", "order", "fewer", "repeated"])
def test_gather_and_scatter_with_identity_indices_are_removed(kind, axis, change):
    shape = (2, 3, 4)
    indices = _indices(kind, shape, axis)
    is_scatter = kind.startswith("Scatter")
    updates = (np.arange(24).reshape(shape) + 100).astype(np.float32)
    match change:
        case "one":
            indices = np.where(np.arange(indices.size).reshape(indices.shape) == 1, 0, indices)
        case "order":
            indices = indices[::-1].copy()
        case "fewer" if kind == "Gather" or kind.endswith("ND"):
            indices, updates = indices[:1], updates[:1]
        case "repeated" if kind in {"Gather", "GatherND"}:
            indices = np.concatenate([indices, indices])
        case _:
            change = "none"
    unchanged = _indices(kind, shape, axis)
    goes = indices.shape == unchanged.shape and np.array_equal(indices, unchanged)
    given = f"x i{' u' if is_scatter else ''}"
    attributes = {} if kind.endswith("ND") else {"axis": axis - 3 if change == "none" else axis}
    nodes = [node(kind, given, "h", **attributes), node("Neg", "h", "y")]
    constants = {"i": indices, "u": updates} if is_scatter else {"i": indices}
    ops, _ = done(remove_noops, nodes, (("x", shape),), **constants)
    assert ops == (["Neg"] if goes else [kind, "Neg"])


@every(
    ("kind", "start", "step", "length", "goes"),
    [
        *[(kind, 0, 1, "x", True) for kind in ("Gather", "GatherND", "ScatterND")],
        *[(kind, 1, 1, "x", False) for kind in ("Gather", "GatherND")],
        *[(kind, 0, 2, "x", False) for kind in ("Gather", "GatherND")],
        *[(kind, 0, 1, "z", False) for kind in ("Gather", "GatherND")],
    ],
)
def test_range_over_a_symbolic_dim_is_an_identity_index(kind, start, step, length, goes):
    made = [node("Shape", length, "s"), node("Gather", "s first", "n"), node("Range", "start n step", "r")]
    given = "x r"
    if kind != "Gather":
        made.append(node("Unsqueeze", "r last", "i"))
        given = "x i"
    if kind == "ScatterND":
        made.append(node("Neg", "x", "u"))
        given = "x i u"
    constants = {"first": np.array(0), "start": np.array(start), "step": np.array(step), "last": np.array([-1])}
    inputs = [("x", ("N", 3)), ("z", ("M", 3))]
    ops, _ = done(remove_noops, [*made, node(kind, given, "h"), node("Abs", "h", "y")], inputs, **constants)
    left = ["Neg", "Abs"] if kind == "ScatterND" else ["Abs"]
    assert (ops == left) is goes


@every("reduction", ["none", "add", "mul", "max", "min"])
def test_scatternd_with_reduction_is_kept(reduction):
    nodes = [node("ScatterND", "x i u", "h", reduction=reduction), node("Neg", "h", "y")]
    constants = {"i": np.arange(2).reshape(2, 1), "u": np.ones(X, np.float32)}
    ops, _ = done(remove_noops, nodes, **constants)
    assert ops == (["Neg"] if reduction == "none" else ["ScatterND", "Neg"])
