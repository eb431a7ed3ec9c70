"""Deprecated forms are reported for exactly the nodes with a newer form, at any position."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import graphport as gp
from graphport.passes.upgrade import find_upgraded_nodes
from tests.draws import times
from tests.models import write_nnef
from tests.passes.cases import B, graph, info, model, node, some

SHAPE = (2, 3, 4)


class Word(NamedTuple):
    """An operator on x [2, 3, 4], and how it was written up to an opset and from there on; the result is of that shape."""

    op: str
    until: int
    """The last opset whose form is not today's; 0 if all forms are."""
    old: dict[str, Any]
    new: dict[str, Any]
    operands: tuple[Any, ...] = ()
    """Constants of the new form."""


WORDS = (
    Word("Clip", 10, {"min": -0.5, "max": 0.75}, {}, (np.float32(-0.5), np.float32(0.75))),
    Word("Pad", 10, {"pads": [0] * 6}, {}, (np.zeros(6, np.int64),)),
    Word(
        "Slice",
        9,
        {"axes": [2, 0], "starts": [0, 0], "ends": [4, 9]},
        {},
        tuple(map(np.array, ([0, 0], [4, 9], [2, 0]))),
    ),
    Word("Unsqueeze", 12, {"axes": [1]}, {}, (np.array([1]),)),
    Word("Squeeze", 12, {"axes": [1]}, {}, (np.array([1]),)),
    Word("ReduceSum", 12, {"axes": [1], "keepdims": 1}, {"keepdims": 1}, (np.array([1]),)),
    Word("ReduceMax", 17, {"axes": [-1], "keepdims": 1}, {"keepdims": 1}, (np.array([-1]),)),
    Word("Softmax", 12, {"axis": 1}, {"axis": 1}),
    Word("Relu", 0, {}, {}),
    Word("Transpose", 0, {"perm": [0, 1, 2]}, {"perm": [0, 1, 2]}),
)


class Net(NamedTuple):
    proto: Any
    told: list[str]
    """Names of the results whose nodes are of old forms."""


@st.composite
def nets(draw: st.DrawFn) -> Net:
    """Return operators in the forms of an opset, each on `x` or on the last result, some in a body."""
    opset = draw(st.integers(8, 18))
    constants: dict[str, Any] = {}
    told: list[str] = []

    def words(stem: str, last: str, count: int) -> tuple[list[Any], str]:
        nodes: list[Any] = []
        for index in range(count):
            op_type, name = draw(st.sampled_from(WORDS)), f"{stem}{index}"
            is_old = opset <= op_type.until
            operands = [] if is_old else [f"{name}c{place}" for place in range(len(op_type.operands))]
            constants.update(zip(operands, op_type.operands, strict=False))
            given = last
            if op_type.op == "Squeeze":
                nodes.append(
                    node(
                        "Unsqueeze",
                        f"{last} {name}c0" if operands else last,
                        f"{name}in",
                        **op_type.old if is_old else {},
                    )
                )
                told.extend([f"{name}in"] if is_old else [])
                given = f"{name}in"
            nodes.append(
                node(op_type.op, " ".join([given, *operands]), name, **(op_type.old if is_old else op_type.new))
            )
            told.extend([name] if is_old else [])
            if op_type.op == "Unsqueeze":
                nodes.append(node("Reshape", f"{name} shape", f"{name}back"))
                name += "back"
            if op_type.op.startswith("Reduce"):
                nodes.append(node("Mul", f"x {name}", f"{name}wide"))
                name += "wide"
            last = name
        return nodes, last

    constants["shape"] = np.array(SHAPE)
    nodes, last = words("a", "x", draw(st.integers(1, 5)))
    bodies = []
    for stem in ("then", "else"):
        inner, end = words(stem, last, draw(st.integers(0, 3)))
        bodies.append(graph([*inner, node("Sigmoid", end, f"{stem}end")], [], [info(f"{stem}end", SHAPE)]))
    nodes.append(helper.make_node("If", ["c"], ["i"], then_branch=bodies[0], else_branch=bodies[1]))
    # Operators of other domains are unchanged, even with names of former ONNX operators.
    nodes.append(helper.make_node("Gelu", ["i"], ["y"], domain="com.microsoft"))
    used = {name for each in [*nodes, *bodies[0].node, *bodies[1].node] for name in each.input}
    kept = {name: array for name, array in constants.items() if name in used}
    inputs = [info("c", [], B), info("x", SHAPE)]
    return Net(model(nodes, inputs, [info("y", SHAPE)], kept, opset, {"com.microsoft": 1}), told)


@settings(max_examples=times(25))
@given(nets(), st.booleans())
def test_upgraded_nodes_are_reported_and_keep_their_results(net: Net, condition: bool) -> None:
    told = gp.load(net.proto.SerializeToString(), raw=True)
    feeds = {"c": np.array(condition), "x": some(*SHAPE)}
    session = onnxruntime.InferenceSession(net.proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    np.testing.assert_allclose(gp.run(told, feeds, backend="reference")["y"], expected, rtol=1e-5, atol=1e-6)
    opset = net.proto.opset_import[0].version
    outcome = find_upgraded_nodes(told.graph)
    assert outcome.name == "upgrade"
    assert sorted(note.node.split()[1] for note in outcome.done) == sorted(net.told)
    assert {note.text for note in outcome.done} <= {f"upgraded to the current opset from onnx {opset}"}
    prepared, _ = gp.simplify(told)
    assert find_upgraded_nodes(prepared.graph).done == ()


def test_op_types_of_formats_without_versions_are_reported(tmp_path) -> None:
    raw = gp.load(write_nnef(tmp_path / "net"), raw=True)
    notes = find_upgraded_nodes(raw.graph).done
    assert [str(note) for note in notes] == [
        "nnef.conv h: upgraded to the current opset",
        "nnef.relu y: upgraded to the current opset",
    ]
