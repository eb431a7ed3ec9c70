from __future__ import annotations

import pytest

from graphport.core.facts import UNKNOWN
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.attributes import NO_ATTRIBUTES, PlainAttributes
from graphport.ir.graph import Graph, Node, Use, Value
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from tests.ir.samples import FACT, branch, chain, names, relu

# --- nodes know operands and results ----------------------------------------------------------------------------------


def test_node_has_its_constructor_arguments():
    x, y = Value("x"), Value("y")
    node = Node("conv", [x], [y], {"pads": (1, 1)}, dialect="nnef", name="conv1")
    assert (node.op, node.op_type, node.dialect, node.name) == ("nnef.conv", "conv", "nnef", "conv1")
    assert (node.inputs, node.outputs, node.attributes) == ((x,), (y,), {"pads": (1, 1)})
    assert (node.graph, node.previous, node.next, node.origin) == (None, None, None, None)
    assert (y.producer, y.index, y.graph) == (node, 0, None)
    assert Node("Conv").op == "Conv"
    assert repr(node) == "%y = nnef.conv(%x)"
    assert repr(Node("Conv", [None, x], [None, Value("z")])) == "_, %z = Conv(_, %x)"


@pytest.mark.parametrize(
    ("operands", "results"),
    [
        pytest.param((0, None, 1), 1, id="an operand is absent"),
        pytest.param((0, 0), 2, id="one is read twice"),
        pytest.param((), 0, id="nothing is read or computed"),
    ],
)
@pytest.mark.parametrize("in_front", [False, True])
def test_append_new_equals_construct_and_append(operands, results, in_front):
    def made(put):
        graph = Graph()
        values = [graph.add_input(name, FACT) for name in "ab"]
        for number in range(2):
            read = [None if place is None else values[place] for place in operands]
            computed = [Value(f"{number}.{index}") for index in range(results)]
            put(graph, read, computed, {"k": (1, 2)}, f"n{number}", {"note": number})
        verify(graph)
        return graph

    def in_two(graph, read, computed, attributes, name, notes):
        if in_front and graph.first is not None:
            graph.insert_before(graph.first, Node("w", read, computed, attributes, dialect="d"))
        else:
            graph.append(Node("w", read, computed, attributes, dialect="d", name=name, notes=notes))

    def in_one(graph, read, computed, attributes, name, notes):
        if in_front and graph.first is not None:
            graph.append_new("w", read, computed, attributes, "d", before=graph.first)
        else:
            graph.append_new("w", read, computed, attributes, "d", name, None, notes)

    one, two = made(in_one), made(in_two)
    assert to_text(one) == to_text(two)
    assert [node.notes for node in one] == [node.notes for node in two]
    assert [[use.index for use in value.uses] for value in one.values()] == [
        [use.index for use in value.uses] for value in two.values()
    ]
    assert all(one.is_reserved(value.name) for value in one.values())
    assert list(reversed(list(one))) == list(reversed(one))
    assert len(one) == 2


def test_append_new_copies_the_attributes():
    graph, attributes = Graph(), {"k": 1}
    graph.append_new("w", [], [], attributes, "d").set_attribute("k", 2)
    assert attributes == {"k": 1}


def test_append_new_rejects_results_with_a_producer():
    graph, (node,) = chain(1)
    free = Value("free")
    for wanted in (node.output, graph.inputs[0]):
        with pytest.raises(ValueError, match=r"already|input"):
            graph.append_new("w", [], [free, wanted], {}, "d")
    with pytest.raises(ValueError, match="two results"):
        graph.append_new("w", [], [free, free], {}, "d")
    assert free.producer is None
    assert free.graph is None
    assert list(graph) == [node]
    verify(graph)


def test_absent_operands_and_results_at_the_end_are_trimmed():
    x, y = Value("x"), Value("y")
    node = Node("LSTM", [None, x, None, None], [None, y, None])
    assert node.inputs == (None, x)
    assert node.outputs == (None, y)
    assert (y.producer, y.index) == (node, 1)
    assert node.operands == [x]
    assert node.results == [y]
    assert Node("LSTM", [None], [None]).inputs == ()


def test_operand_index_past_the_end_returns_none():
    x = Value("x")
    node = Node("Clip", [None, x])
    assert [node.operand(index) for index in range(4)] == [None, x, None, None]


def test_uses_list_every_operand_index():
    x = Value("x")
    node = Node("Add", [x, None, x])
    other = Node("Relu", [x])
    assert list(x.uses) == [Use(node, 0), Use(node, 2), Use(other, 0)]
    assert x.users == [node, other]


def test_operands_may_be_replaced():
    x, y = Value("x"), Value("y")
    node = Node("Add", [x, x])
    assert node.inputs == (x, x)
    node.inputs = [y, None, x, None]
    assert node.inputs == (y, None, x)
    assert (list(x.uses), list(y.uses)) == ([Use(node, 2)], [Use(node, 0)])
    node.inputs = ()
    assert (node.inputs, x.uses, y.uses) == ((), (), ())


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        pytest.param(0, ["z", "y"], id="the first"),
        pytest.param(1, ["x", "z"], id="the last"),
        pytest.param(2, ["x", "y", "z"], id="one more"),
        pytest.param(4, ["x", "y", None, None, "z"], id="far behind"),
    ],
)
def test_set_input_replaces_one_operand(index, expected):
    x, y, z = Value("x"), Value("y"), Value("z")
    node = Node("Add", [x, y])
    assert node.inputs == (x, y)
    node.set_input(index, z)
    assert names(node.inputs) == expected
    for value in (x, y, z):
        assert list(value.uses) == [Use(node, i) for i, name in enumerate(expected) if name == value.name]


def test_an_operand_becomes_absent():
    x, y = Value("x"), Value("y")
    node = Node("Add", [x, None, y])
    node.set_input(0, None)
    assert (node.inputs, x.uses) == ((None, None, y), ())
    node.set_input(2, None)
    assert (node.inputs, y.uses) == ((), ())
    node.set_input(5, None)
    assert node.inputs == ()


def test_there_is_no_operand_before_the_first():
    node = Node("Add", [Value("x"), Value("y")])
    with pytest.raises(IndexError, match="no operand -1"):
        node.set_input(-1, None)


def test_value_has_one_producer():
    y = Value("y")
    node = Node("Relu", [], [y])
    free = Value("free")
    with pytest.raises(ValueError, match=r"%y is computed by Relu already"):
        Node("Relu", [], [free, y])
    assert (y.producer, free.producer) == (node, None)
    with pytest.raises(ValueError, match="one value is two results of Split"):
        Node("Split", [], [free, free])
    assert free.producer is None


def test_inputs_and_constants_are_not_computed():
    graph = Graph()
    for value in (graph.add_input("x"), graph.add_constant("w", FACT)):
        with pytest.raises(ValueError, match="is an input or constant"):
            Node("Relu", [], [value])


def test_output_of_a_node_without_first_result_raises():
    y = Value("y")
    assert Node("Relu", [], [y]).output is y
    with pytest.raises(ValueError, match="the first result of LSTM is absent"):
        _ = Node("LSTM", [], [None, Value("h")]).output
    with pytest.raises(ValueError, match="the first result of Print is absent"):
        _ = Node("Print").output


def test_take_outputs_moves_results_to_another_node():
    graph, (a, b) = chain(2)
    value = a.output
    new = graph.insert_before(a, Node("Elu", a.inputs))
    new.take_outputs(a)
    assert (a.outputs, new.outputs, value.producer, value.graph) == ((), (value,), new, graph)
    graph.remove(a)
    assert b.inputs == (value,)
    verify(graph)


def test_take_outputs_works_before_insertion():
    graph, (a,) = chain(1)
    new = Node("Elu", a.inputs)
    new.take_outputs(a)
    assert new.output.graph is None
    graph.insert_after(a, new)
    graph.remove(a)
    verify(graph)


def test_take_outputs_works_across_graphs():
    source, (a,) = chain(1)
    source.set_outputs([])
    target = Graph()
    new = target.append(Node("Elu", [target.add_input("x")]))
    new.take_outputs(a)
    assert target.fresh("v0") == "v0_1"
    verify(target)


def test_take_outputs_rejects_a_node_with_results():
    _, (a, b) = chain(2)
    with pytest.raises(ValueError, match="already has results"):
        b.take_outputs(a)
    assert a.output.producer is a


def test_a_result_is_dropped():
    graph = Graph()
    node = graph.append(Node("LSTM", [], [Value("y"), Value("h"), Value("c")]))
    y, h, c = node.results
    node.drop_output(1)
    assert node.outputs == (y, None, c)
    assert (h.producer, h.graph) == (None, None)
    node.drop_output(1)
    node.drop_output(-1)
    assert node.outputs == (y,)
    graph.add_output(y)
    with pytest.raises(ValueError, match="%y is still read"):
        node.drop_output(0)
    verify(graph)


def test_restate_changes_op_type_dialect_and_attributes():
    graph, (a, _) = chain(2)
    a.notes["onnx"] = 1
    attributes = {"alpha": 2.0}
    a.restate("elu", "nnef", attributes)
    assert (a.op, a.op_type, a.dialect, a.attributes, a.has_notes) == ("nnef.elu", "elu", "nnef", {"alpha": 2.0}, False)
    attributes["alpha"] = 3.0
    assert a.attributes == {"alpha": 2.0}
    assert (a.inputs, names(a.outputs), graph.first_node) == ((graph.inputs[0],), ["v0"], a)
    node, _ = branch(graph, graph.inputs[0])
    with pytest.raises(ValueError, match="has bodies"):
        node.restate("elu", "nnef", {})
    assert node.op_type == "If"
    verify(graph)


def test_notes_are_created_on_first_write():
    for owner in (Value("x"), Node("Relu"), Graph()):
        assert not owner.has_notes
        assert owner.notes == {}
        assert not owner.has_notes
        owner.notes["onnx"] = 1
        assert owner.has_notes
        assert owner.notes == {"onnx": 1}


# --- values -----------------------------------------------------------------------------------------------------------


def test_value_reports_input_constant_and_output():
    graph, (node,) = chain(1)
    x, w, y = graph.inputs[0], graph.add_constant("w", FACT, storage_of([1.0])), node.output
    assert [value.is_input for value in (x, w, y)] == [True, False, False]
    assert [value.is_constant for value in (x, w, y)] == [False, True, False]
    assert [value.is_output for value in (x, w, y)] == [False, False, True]
    alone = Value("alone")
    assert (alone.is_input, alone.is_constant, alone.is_output, alone.is_literal) == (False, False, False, False)
    assert (alone.fact, alone.storage, alone.origin, alone.index) == (UNKNOWN, None, None, 0)
    assert repr(y) == "%v0: float32[1, 2]"


def test_is_output_counts_repeated_outputs():
    graph, (a, b) = chain(2)
    graph.set_outputs([a.output, a.output])
    assert (a.output.is_output, b.output.is_output) == (True, False)
    graph.set_output(0, b.output)
    assert (a.output.is_output, b.output.is_output) == (True, True)
    graph.set_output(1, b.output)
    assert (a.output.is_output, b.output.is_output) == (False, True)
    verify(graph)


def test_replace_uses_updates_operands_and_outputs():
    graph, (a, b) = chain(2)
    graph.add_output(a.output)
    x = graph.inputs[0]
    b.inputs = [a.output, None, a.output]
    a.output.replace_uses(x)
    assert b.inputs == (x, None, x)
    assert names(graph.outputs) == ["v1", "x"]
    assert not a.output.uses
    x.replace_uses(x)
    assert b.inputs == (x, None, x)
    verify(graph)


def test_replace_uses_keeps_excepted_consumers():
    graph, (a, b) = chain(2)
    c = graph.append(relu(a.output, "c"))
    a.output.replace_uses(graph.inputs[0], keep=[c])
    assert (b.inputs[0], c.inputs[0]) == (graph.inputs[0], a.output)


def test_uses_are_in_insertion_order():
    x = Value("x")
    first, second = Node("Relu", [x]), Node("Add", [x, x])
    assert list(x.uses) == [Use(first, 0), Use(second, 0), Use(second, 1)]
    second.set_input(0, x)
    assert list(x.uses) == [Use(first, 0), Use(second, 1), Use(second, 0)]
    first.inputs = second.inputs = ()
    assert not x.uses
    second.inputs = [x]
    assert list(x.uses) == [Use(second, 0)]
    with pytest.raises(KeyError):
        x.lose(Use(first, 0))


def test_many_uses_are_in_insertion_order():
    x = Value("x")
    nodes = [Node("Relu", [x]) for _ in range(9)]
    wanted = [Use(node, 0) for node in nodes]
    assert list(x.uses) == wanted
    for index in (4, 0, 5, 2, 2, 1, 1, 1):
        nodes.pop(index).inputs = ()
        wanted.pop(index)
        assert list(x.uses) == wanted
        with pytest.raises(KeyError):
            x.lose(Use(Node("Relu"), 0))
    assert x.users == nodes


def test_shared_attributes_are_copied_on_access():
    shared = PlainAttributes({"axis": 1})
    graph = Graph()
    x = graph.add_input("x")
    first = graph.append_new("Softmax", [x], [Value("a")], shared, "")
    second = graph.append(Node("Softmax", [x], [Value("b")], shared))
    twin = next(iter(rewrite.copy(graph)))
    third = graph.append(Node("Relu", [x], [Value("c")]))
    third.restate("Softmax", "", shared)
    assert all(node.stated is shared for node in (first, second, third, twin))
    first.attributes["axis"] = 2
    second.set_attribute("axis", 3)
    third.remove_attribute("axis")
    assert [dict(node.stated) for node in (first, second, third, twin)] == [{"axis": 2}, {"axis": 3}, {}, {"axis": 1}]
    assert shared == {"axis": 1}
    empty = Node("Relu", [x]), Node("Relu", [x])
    empty[0].attributes["alpha"] = 1.0
    assert (empty[1].attributes, dict(NO_ATTRIBUTES)) == ({}, {})
