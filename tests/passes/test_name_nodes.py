"""Every node has a unique name, and existing names are preserved."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.passes.journal import Journal, NotApplicable, Note, SizeLimitExceeded, apply, label
from graphport.passes.name_nodes import name_nodes


def chain(*rows: tuple[str, str]) -> Graph:
    graph = Graph()
    value = graph.add_input("x", TensorFact(DType.FLOAT32, (2,)))
    for op_type, name in rows:
        value = graph.append(Node(op_type, [value], [Value(graph.fresh("h"))], name=name)).output
    graph.set_outputs([value])
    return graph


def test_unnamed_nodes_and_duplicate_names_get_unique_names():
    graph, journal = chain(("Conv", ""), ("Relu", "a"), ("Neg", "a"), ("Conv", ""), ("Abs", "Conv")), Journal()
    name_nodes(graph, journal)
    names = [each.name for each in graph]
    assert len(set(names)) == 5
    assert (names[1], names[2], names[4]) == ("a", "a_1", "Conv")  # existing names are not reused
    assert [note.text for note in journal.done] == ["had no name", "another node has the name a", "had no name"]
    again = Journal()
    name_nodes(graph, again)
    assert not again.done


def test_names_in_bodies_count():
    graph = chain(("Conv", "a"))
    assert graph.first_node is not None
    graph.first_node.set_attribute("body", chain(("Conv", "a")))
    name_nodes(graph, Journal())
    (body,) = graph.first_node.bodies()
    assert [each.name for each in graph] + [each.name for each in body] == ["a", "a_1"]


def test_notes_contain_the_op_type_and_the_node_name():
    graph = chain(("Relu", ""), ("Neg", "n"))
    first, last = graph
    assert (label(first), label(last)) == ("Relu h", "Neg n")
    assert label(Node("If", [], [])) == "If"
    journal = Journal()
    journal.did(first, "done", 2)
    journal.did("w", "gone")
    journal.leave(last, "it stays")
    assert journal.done == [Note("Relu h", "done", None, 2), Note("w", "gone", None, 1)]
    assert [str(note) for note in journal.left] == ["Neg n: it stays"]


def test_apply_runs_the_rule_on_its_op_types_and_records_notes():
    graph, journal, seen = chain(("Relu", ""), ("Neg", "n"), ("Abs", "")), Journal(), []

    def rule(node: Node) -> str | None:
        seen.append(node.op_type)
        match node.op_type:
            case "Relu":
                return "done"
            case "Neg":
                raise NotApplicable("it stays")
            case _:
                return None

    apply(graph, journal, rule, {"Relu", "Abs"})
    assert (seen, [str(note) for note in journal.done], journal.left) == (["Relu", "Abs"], ["Relu h: done"], [])
    apply(graph, journal, rule)
    assert [str(note) for note in journal.left] == ["Neg n: it stays"]
    assert not journal.wanted


def test_size_limit_exceeded_records_the_requested_bytes():
    journal = Journal()

    def rule(node: Node) -> str | None:
        raise SizeLimitExceeded("it is large", 7)

    apply(chain(("Relu", "")), journal, rule)
    assert (journal.wanted, [note.text for note in journal.left]) == ([7], ["it is large"])


def test_apply_skips_bodies_of_removed_nodes():
    graph, seen = chain(("Loop", "l"), ("Neg", "n")), []
    assert graph.first_node is not None
    graph.first_node.set_attribute("body", chain(("Abs", "a")))

    def rule(node: Node) -> str | None:
        seen.append(node.op_type)
        if node.op_type == "Loop":
            node.output.replace_uses(graph.inputs[0])
            graph.remove(node)
        return None

    apply(graph, Journal(), rule)
    assert seen == ["Loop", "Neg"]


def test_operators_of_others_are_reported_by_their_dialect():
    graph, seen = chain(("Relu", "")), []
    assert graph.first_node is not None
    graph.first_node.restate("Relu", "custom", {})
    apply(graph, Journal(), lambda node: seen.append(node.op), {"Relu"})
    assert not seen
    apply(graph, Journal(), lambda node: seen.append(node.op), {"custom.Relu"})
    assert seen == ["custom.Relu"]
