"""Mutated buffers of exported programs, strided tensors, complex pairs, and unused values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pytorch.graph_passes.complex import pair
from graphport.formats.pytorch.graph_passes.functionalization import WRITTEN
from graphport.formats.pytorch.graph_passes.hooks import before
from graphport.formats.pytorch.graph_passes.states import MUTATED, STATES, settle
from graphport.formats.pytorch.graph_passes.strides import LAYOUT, rebase
from graphport.formats.pytorch.rules.binding import COMPLEX, KEYS
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, state_of
from graphport.ir.verify import verify
from graphport.ops import registry

registry.load(DIALECT)
FACT = TensorFact(DType.FLOAT32, (2,))


class Net:
    def __init__(self, fact: Any = FACT) -> None:
        self.graph: Any = Graph()
        self.x = self.graph.add_input("x", fact)

    def put(self, op_type: str, *operands: Any, fact: Any = FACT, results=1, dialect=DIALECT, **told: Any) -> Any:
        made = [Value(self.graph.fresh("v"), fact) for _ in range(results)]
        node = self.graph.append(Node(op_type, list(operands), made, told, dialect=dialect))
        return made[0] if results == 1 else node

    def buffer(self, name: str) -> Any:
        storage = storage_of(np.arange(2, dtype=np.float32))
        return self.graph.add_constant(name, TensorFact.of(storage), storage)


# ── buffers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def changing(is_kept: bool, count: int = 3) -> tuple[Net, list[Value], list[Value]]:
    """Return buffers, every second of which is marked where it is written; the others are listed."""
    net = Net()
    buffers = [net.buffer(f"b{place}") for place in range(count)]
    last = [net.put("aten.add.Tensor", net.x, buffer) for buffer in buffers]
    if count > 1:
        last[1] = buffers[1]  # written with its own value
    for place in range(0, count, 2):
        buffers[place].notes[WRITTEN] = last[place]
    listed = [(buffers[place].name, last[place].name, None) for place in range(1, count, 2)]
    net.graph.notes[MUTATED] = (*listed, ("none", "x", None), ("b0", "none", None), ("x", last[0].name, None))
    net.graph.notes[STATES] = is_kept
    net.x.notes[WRITTEN] = last[0]
    net.graph.set_outputs([net.put("aten.relu.default", value) for value in last])
    return net, buffers, last


def test_changing_buffers_are_reported_or_become_states():
    for count in (1, 3, 8, 9, 10):
        net, buffers, _ = changing(False, count)
        (finding,) = settle(net.graph)
        more = f" and {count - 8} more" if count > 8 else ""
        names = ", ".join(sorted(f"b{place}" for place in range(count))[:8])
        assert (
            finding.message
            == f"the program writes to {names}{more}: each run starts with the stored values, and the updates are discarded"
        )
        assert (finding.code, finding.is_error, net.graph.inputs) == ("LEG0005", False, [net.x])
        assert not any(buffer.has_notes and WRITTEN in buffer.notes for buffer in (*buffers, net.x))
        net, buffers, last = changing(True, count)
        returned = len(net.graph.outputs)
        assert settle(net.graph) == []
        verify(net.graph)
        states = net.graph.inputs[1:]
        assert sorted(value.name for value in states) == sorted(f"b{place}_in" for place in range(count))
        for value in states:
            place = int(value.name[1:-3])
            assert state_of(value) == State(f"b{place}_out", f"b{place}")
            assert (value.fact, value.storage) == (FACT, buffers[place].storage)
            result = next(each for each in net.graph.outputs if each.name == f"b{place}_out")
            node = result.producer
            assert (node.op_type, node.attributes, node.dialect) == ("aten.alias.default", {KEYS: ("self",)}, DIALECT)
            assert node.operands == [value if place == 1 else last[place]]
            assert result.fact == FACT
            assert buffers[place] not in net.graph.constants
        assert len(net.graph.outputs) == returned + count
    net = Net()
    net.graph.set_outputs([net.x])
    net.graph.notes[STATES] = True
    assert settle(net.graph) == []
    assert net.graph.outputs == [net.x]


# ── strides ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_as_strided_applies_to_the_whole_storage():
    dense, shifted, loose, lost = (True, 0), (True, 3), (False, 2), (False, None)
    for views, layouts, given, expected in (
        ([], [dense], None, (0, 0)),
        ([], [dense], 5, (0, 5)),
        (["aten.slice.Tensor"], [dense, shifted], None, (0, 3)),
        (["aten.slice.Tensor"], [dense, shifted], 0, (0, 0)),
        (["aten.slice.Tensor", "aten.transpose.int"], [dense, shifted, loose], None, (0, 2)),
        (["aten.slice.Tensor"], [dense, lost], None, None),
        (["aten.slice.Tensor"], [shifted, loose], None, None),
        (["aten.slice.Tensor"], [None, loose], None, (0, 2)),
        (["aten.slice.Tensor"], [dense, None], None, None),
        ([], [None], None, "as it lies"),
        (["aten.relu.default"], [dense, dense], None, (1, 0)),
        (["aten.relu.default"], [dense, shifted], None, None),
        (["aten.reshape.default"], [dense, dense], None, (0, 0)),
        (["aten.reshape.default"], [dense, loose], None, None),
        (["aten.to.dtype"], [dense, dense], None, (1, 0)),
    ):
        net = Net()
        values = [net.x]
        for op_type in views:
            values.append(net.put(op_type, values[-1]))
        for value, layout in zip(values, layouts, strict=True):
            if layout is not None:
                value.notes[LAYOUT] = layout
        told = {} if given is None else {"storage_offset": given}
        y = net.put("aten.as_strided.default", values[-1], size=(2,), stride=(1,), **told)
        net.graph.set_outputs([y])
        findings = rebase(net.graph)
        node = y.producer
        if expected == "as it lies":
            assert (findings, node.operands, "storage_offset" in node.attributes) == ([], [net.x], False)
        elif expected is None:
            assert [finding.code for finding in findings] == ["LEG0004"], (views, layouts)
            assert node.operands == [values[-1]]
        else:
            assert findings == [], (views, layouts)
            assert node.operands == [values[expected[0]]]
            assert node.attributes["storage_offset"] == expected[1]


def test_as_strided_scatter_has_the_shape_of_its_operand():
    for layout, is_known in (((True, 0), True), ((True, 3), False), (None, True)):
        net = Net()
        if layout is not None:
            net.x.notes[LAYOUT] = layout
        y = net.put("aten.as_strided_scatter.default", net.x, net.buffer("w"), size=(2,), stride=(1,))
        net.graph.set_outputs([y])
        found = [finding.code for finding in rebase(net.graph)]
        assert (found == []) is (is_known and layout is not None) or layout is None
        assert y.producer.operands[0] is net.x
    net = Net()
    other = net.put("aten.as_strided.default", net.x, dialect="custom")
    net.x.notes[LAYOUT] = (False, 1)
    net.graph.set_outputs([other])
    assert rebase(net.graph) == []
    assert "storage_offset" not in other.producer.attributes


# ── complex numbers ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_complex_inputs_and_outputs_are_reported():
    whole = TensorFact(DType.COMPLEX64, (2,))
    net = Net(whole)
    z = net.put("aten.mul.Tensor", net.x, net.x, fact=whole)
    y = net.put("aten.real.default", z)
    w = net.put("aten.relu.default", y)
    net.graph.set_outputs([w, z, z])
    (finding,) = pair(net.graph)
    assert (finding.code, finding.is_error) == ("LEG0007", False)
    assert finding.message.startswith(f"x, {z.name}: complex tensors are represented as")
    assert [value.fact for value in (net.x, z, y)] == [*[TensorFact(DType.FLOAT32, (2, 2))] * 2, FACT]
    assert [node.op_type for node in net.graph] == [
        f"{COMPLEX}aten.mul.Tensor",
        f"{COMPLEX}aten.real.default",
        "aten.relu.default",
    ]
    assert [node.attributes.get(COMPLEX) for node in net.graph] == [(True, True), (True,), None]
    net.graph.set_outputs([w])
    assert pair(net.graph) == []
    net = Net()
    z = net.put("aten.complex.default", net.x, net.x, fact=whole)
    net.graph.set_outputs([net.put("aten.real.default", z)])
    assert pair(net.graph) == []
    assert z.fact == TensorFact(DType.FLOAT32, (2, 2))


def test_op_types_without_complex_rule_are_reported_once():
    whole = TensorFact(DType.COMPLEX64, (2,))
    net = Net(whole)
    found = [net.put(op_type, net.x, fact=whole) for op_type in ("aten.none.a", "aten.none.b", "aten.none.a")]
    net.graph.set_outputs(found)
    with pytest.raises(DiagnosticError) as caught:
        pair(net.graph)
    assert [each.code for each in caught.value.diagnostics] == ["LEG0004"] * 2
    assert net.x.fact == whole
    assert [node.op_type for node in net.graph] == ["aten.none.a", "aten.none.b", "aten.none.a"]


# ── unused values ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unused_nodes_and_results_are_removed():
    net = Net()
    made = net.put("aten.topk.default", net.x, results=2, fact=UNKNOWN)
    dead = net.put("aten.relu.default", net.put("aten.neg.default", net.x))
    foreign = net.put("Neg", net.x, dialect="custom")
    net.graph.set_outputs([made.results[1]])
    assert before(net.graph) == []
    verify(net.graph)
    assert [node.op_type for node in net.graph] == ["aten.topk.default", "Neg"]
    assert [value is None for value in made.outputs] == [True, False]
    assert dead.producer is None or dead.producer.graph is None
    assert foreign.producer.graph is net.graph
