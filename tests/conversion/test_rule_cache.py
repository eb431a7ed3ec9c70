"""Cached conversions of equal nodes equal those of separate rule calls, and only equal nodes share a cache entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from benchmarks.files import ir_chain, ir_constants, ncnn_chain, nnef_text, onnx_decoder, pnnx_chain

import graphport as gp
from graphport.backends import reference
from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.conversion.rule_cache import _MAX_UNUSED, MAX_READ_BYTES, RuleCache
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.text import to_text
from graphport.ir.verify import verify


def nnef(path, count):
    path.write_text(nnef_text(count))


def ir_decoder(path, count):
    """Layers that differ in their weights alone."""
    source = onnx_decoder(path.with_suffix(".onnx"), count // 16)
    openvino.save_model(openvino.convert_model(source), path, compress_to_fp16=False)


FILES = {
    "chain.xml": ir_chain,
    "constants.xml": ir_constants,
    "chain.param": ncnn_chain,
    "chain.pnnx.param": pnnx_chain,
    "chain.nnef": nnef,
    "decoder.onnx": lambda path, count: onnx_decoder(path, count // 48),
}


@pytest.mark.parametrize("name", FILES)
def test_the_cache_does_not_change_results(name, tmp_path, monkeypatch):
    """Reading, and writing as five formats: equal texts with and without the cache."""
    FILES[name](tmp_path / name, 48)
    found = []
    for is_forgetful in (False, True):
        if is_forgetful:
            monkeypatch.setattr(RuleCache, "find", lambda self, key: None)
        model = gp.load(tmp_path / name)
        texts = [told(model.graph)]
        for dialect in ("openvino", "ncnn", "pnnx", "nnef", "tflite"):
            graph, findings = export_graph(model.graph, dialect)
            texts += [told(graph), [str(finding) for finding in findings]]
        found.append(texts)
    assert found[0] == found[1]


def test_rule_cache_hits_for_layers_that_differ_only_in_weights(tmp_path, monkeypatch):
    asked, remember = [], RuleCache.remember

    def counted(self, key, node, *rest):
        asked.append(node.op_type)
        remember(self, key, node, *rest)

    monkeypatch.setattr(RuleCache, "remember", counted)
    ir_decoder(tmp_path / "decoder.xml", 48)
    graph = gp.load(tmp_path / "decoder.xml").graph
    turned = [node.inputs[0] for node in graph if node.op_type == "Transpose" and node.inputs[0].is_constant]
    assert len(turned) == len(set(turned)) == 3 * 7
    assert 0 < asked.count("opset1.MatMul") < len(turned)
    monkeypatch.setattr(RuleCache, "find", lambda self, key: None)
    assert told(graph) == told(gp.load(tmp_path / "decoder.xml").graph)


def told(graph: Graph) -> list[str]:
    """Return the graph's text with values renamed by order: further values of a rule may have other numbers."""
    for index, value in enumerate(graph.values()):
        graph.rename(value, f"value{index}")
    return to_text(graph).splitlines()


def two(op_type: str, *attributes: dict, operands: str = "xy xy") -> list[dict]:
    """Convert two OpenVINO nodes that differ in their attributes or operands."""
    graph = Graph()
    fact = TensorFact(DType.FLOAT32, (2, 2))
    values = {name: graph.add_input(name, fact) for name in "xy"}
    for index, (each, names) in enumerate(zip(attributes, operands.split(), strict=True)):
        made = Value(graph.fresh(f"r{index}"), fact)
        given = [values[name] for name in names]
        graph.append(Node(op_type, given, [made], each, dialect="openvino"))
        graph.add_output(made)
    result, _ = legalize(graph)
    return [{"inputs": [value.name for value in node.inputs], **node.attributes} for node in result]


@pytest.mark.parametrize("pair", [(0.0, -0.0), (1.0, float(np.nextafter(1, 2)))], ids=["sign of zero", "last digit"])
def test_attributes_that_are_nearly_the_same_are_two(pair):
    first, second = two("opset1.Elu", {"alpha": pair[0]}, {"alpha": pair[1]}, operands="x x")
    assert [str(each["alpha"]) for each in (first, second)] == [str(number) for number in pair]


def test_rule_cache_distinguishes_repeated_from_distinct_operands():
    first, second, third = two("opset1.Add", {}, {}, {}, operands="xy xx yx")
    assert [each["inputs"] for each in (first, second, third)] == [["x", "y"], ["x", "x"], ["y", "x"]]


def test_results_that_are_absent_have_no_facts_to_take():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 4)))
    for index in range(3):
        second = Value(graph.fresh(f"second{index}"), TensorFact(DType.FLOAT32, (2, 2)))
        told = {KEYS: ("self",), "split_size": 2, "dim": 1}
        graph.append(Node("aten.split.Tensor", [x], [None, second], told, dialect="pytorch"))
        graph.add_output(second)
    result, _ = legalize(graph)
    verify(result)
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = reference.prepare(result).run({"x": given})
    assert all(np.array_equal(each, given[:, 2:]) for each in found.values())
    assert len(found) == 3


def test_a_replayed_operator_has_the_results_that_onnx_requires(tmp_path):
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 4)))
    for index in range(3):
        indices = Value(graph.fresh(f"indices{index}"), TensorFact(DType.INT64, (2, 2)))
        unused = Value(graph.fresh(f"values{index}"), TensorFact(DType.FLOAT32, (2, 2)))
        attributes = {KEYS: ("self",), "k": 2, "dim": 1}
        graph.append(Node("aten.topk.default", [x], [unused, indices], attributes, dialect="pytorch"))
        graph.add_output(indices)
    result, _ = legalize(graph)
    assert all(None not in node.outputs for node in result if node.op_type == "TopK")


def test_rule_cache_keeps_names_and_forwards_operands_of_dropped_nodes(tmp_path):
    """A dropped layer forwards its operand; values and nodes have the names of the file."""
    lines = ["Input x 0 1 x 0=4 1=4 2=2"]
    lines += [f"Dropout d{n} 1 1 {'x' if n == 0 else f'd{n - 1}'} d{n}" for n in range(3)]
    lines += [f"ReLU r{n} 1 1 {'d2' if n == 0 else f'r{n - 1}'} r{n}" for n in range(3)]
    (tmp_path / "m.param").write_text(f"7767517\n{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n")
    (tmp_path / "m.bin").touch()
    graph = gp.load(tmp_path / "m.param").graph
    assert [(node.op, node.name, node.output.name) for node in graph][-3:] == [
        ("Relu", f"r{n}", f"r{n}") for n in range(3)
    ]
    assert [value.name for value in graph.outputs] == ["r2"]


# Cached and uncached conversions


FACT = TensorFact(DType.FLOAT32, (2,))


class Net:
    """A graph of a node `y = Word(x, c)` that a rule is about to make something else of."""

    def __init__(self, op_type: str = "Word", attributes: Any = None, outputs: int = 1) -> None:
        self.graph = Graph()
        self.x, self.z = (self.graph.add_input(name, FACT) for name in "xz")
        self.c = self.constant([1.0, 2.0])
        self.node = self.graph.append(
            Node(
                op_type, [self.x, self.c], [Value(f"y{n}", FACT) for n in range(outputs)], attributes or {}, dialect="d"
            )
        )
        self.graph.set_outputs(self.node.results)
        self.repetition = RuleCache(self.graph)

    def constant(self, numbers, dtype: DType = DType.FLOAT32) -> Value:
        storage = storage_of(numbers, dtype)
        return self.graph.add_constant("c", TensorFact.of(storage), storage)

    def made(self, op_type: str, *operands: Value | None, outputs: int = 1, **options: Any) -> Node:
        results = [Value(self.graph.fresh("t"), FACT) for _ in range(outputs)]
        return self.graph.insert_before(self.node, Node(op_type, operands, results, **options))

    def kept(self, *made: Node, answer: Any = None, state_before: Any = None) -> Any:
        """Cache the nodes `made`, the last of which has the results, and look them up."""
        given = (made[-1].outputs if made else ()) if answer is None else answer
        before = self.repetition.state_before() if state_before is None else state_before
        self.repetition.remember("key", self.node, made, given, before)
        return self.repetition.find("key")


def test_cached_rules_emit_nodes_in_the_same_order():
    first, net = Net(), Net()
    one = first.made("One", first.c, None, first.x, attributes={"n": 1})
    two = first.made("Two", one.output, outputs=2)
    three = first.made("Three", two.results[1], first.constant([3.0]), one.output, first.x)
    template = first.kept(one, two, three)
    assert template is not None
    net.node.origin = None
    net.repetition.repeat(net.graph, net.node, template)
    verify(net.graph)
    made = list(net.graph)
    assert [each.op_type for each in made] == ["One", "Two", "Three"]
    assert made[2] is net.node
    assert made[0].inputs == (net.c, None, net.x)
    assert made[0].attributes == {"n": 1}
    assert [value.fact for value in made[1].results] == [FACT, FACT]
    assert made[1].inputs == (made[0].output,)
    added = net.graph.last_node.inputs[1]
    assert net.node.inputs == (made[1].results[1], added, made[0].output, net.x)
    assert added.storage.numpy().tolist() == [3.0]
    assert [value.name for value in net.graph.outputs] == ["y0"]
    assert not template.is_in_order


def test_template_replays_nodes_with_the_same_operand_order():
    for operands, is_in_order in ((("x", "c"), True), (("c", "x"), False), (("x",), False), (("x", "c", "x"), False)):
        net, other = Net(), Net()
        template = net.kept(net.made("Other", *[getattr(net, name) for name in operands]))
        assert template.is_in_order is is_in_order
        other.repetition.repeat(other.graph, other.node, template)
        assert other.node.inputs == tuple(getattr(other, name) for name in operands)


def test_template_stores_a_repeated_constant_once():
    net, other = Net(), Net()
    three, four = net.constant([3.0]), net.constant([4.0])
    one = net.made("One", three, net.x)
    template = net.kept(one, net.made("Two", one.output, three, four))
    steps = (*template.steps, template.last)
    assert [[storage.numpy().tolist() for _, storage in step.constants] for step in steps] == [[[3.0]], [[4.0]]]
    other.repetition.repeat(other.graph, other.node, template)
    first, last = other.graph
    assert first.operands[0] is last.operands[1]
    assert [value.storage.numpy().tolist() for value in last.operands[1:]] == [[3.0], [4.0]]


@pytest.mark.parametrize(("count", "is_kept"), [(0, False), (1, True), (32, True), (33, False)])
def test_template_is_cached_up_to_a_maximum_number_of_steps(count, is_kept):
    net = Net()
    assert (net.kept(*[net.made("One", net.x) for _ in range(count)]) is not None) is is_kept


def test_results_that_depend_on_other_nodes_are_not_cached():
    def with_name(net):
        return [net.made("One", net.x, name="n")]

    def with_notes(net):
        made = net.made("One", net.x)
        made.notes["a"] = 1
        return [made]

    def with_noted_result(net):
        made = net.made("One", net.x)
        made.output.notes["a"] = 1
        return [made]

    def with_a_body(net):
        return [net.made("One", net.x, attributes={"body": Graph()})]

    def with_another_operand(net):
        return [net.made("One", net.z)]

    def with_another_operand_inside(net):
        one = net.made("One", net.z, net.x)
        return [one, net.made("Two", one.output)]

    def with_a_literal(net):
        literal = net.constant([3.0])
        literal.is_literal = True
        return [net.made("One", literal)]

    def with_a_noted_constant(net):
        noted = net.constant([3.0])
        noted.notes["a"] = 1
        return [net.made("One", noted)]

    def with_numbers_that_are_elsewhere(net):
        return [net.made("One", net.graph.add_constant("k", FACT, None))]

    def with_many_numbers(net):
        return [net.made("One", net.constant(np.zeros(MAX_READ_BYTES // 4 + 1)))]

    def with_more_results(net):
        return [net.made("One", net.x, outputs=2)]

    rules = [
        with_name,
        with_notes,
        with_noted_result,
        with_a_body,
        with_another_operand,
        with_another_operand_inside,
        with_a_literal,
        with_a_noted_constant,
        with_numbers_that_are_elsewhere,
        with_many_numbers,
        with_more_results,
    ]
    for rule in rules:
        net = Net()
        assert net.kept(*rule(net)) is None, rule.__name__
    net = Net()
    assert net.kept(net.made("One", net.constant(np.zeros(MAX_READ_BYTES // 4)))) is not None


def test_results_are_those_of_the_last_step_in_order():
    def two():
        net = Net(outputs=2)
        one = net.made("One", net.x)
        return net, one, net.made("Two", one.output, outputs=2)

    net, one, last = two()
    assert net.kept(one, last) is not None
    net, one, last = two()
    assert net.kept(one, last, answer=last.outputs[::-1]) is None
    net, one, last = two()
    assert net.kept(one, last, answer=(one.output, last.results[1])) is None
    net, one, last = two()
    assert net.kept(one, last, answer=(last.results[0], net.x)) is None
    net, one, last = two()
    assert net.kept(one, last, answer=last.outputs[:1]) is None
    net, one, last = two()
    assert net.kept(one, last, answer=(*last.outputs, None)) is not None


def test_rules_that_report_findings_or_declare_symbols_are_not_cached():
    findings: list[Any] = []
    net = Net()
    net.repetition = RuleCache(net.graph, findings)
    state_before = net.repetition.state_before()
    findings.append("one")
    assert net.kept(net.made("One", net.x), state_before=state_before) is None
    state_before = net.repetition.state_before()
    net.graph.extents.declare("N")
    assert net.kept(net.made("One", net.x), state_before=state_before) is None
    assert net.kept(net.made("One", net.x)) is not None


def test_rule_cache_evicts_templates_above_its_limit(monkeypatch):
    monkeypatch.setattr("graphport.conversion.rule_cache._MAX_CACHED_TEMPLATES", 2)
    net = Net()
    for key in "abc":
        net.repetition.remember(
            key, net.node, [net.made("One", net.x)], net.graph.last_node.previous.outputs, net.repetition.state_before()
        )
    assert [net.repetition.find(key) is not None for key in "abc"] == [False, False, True]
    net.repetition.remember(
        "d", net.node, [net.made("One", net.x)], net.graph.last_node.previous.outputs, net.repetition.state_before()
    )
    assert [net.repetition.find(key) is not None for key in "cde"] == [True, True, False]


# Which nodes are alike


ATTRIBUTES = [
    {},
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": 2},
    {"b": 1},
    {"a": 0.0},
    {"a": -0.0},
    {"a": "1"},
    {"a": (1, 2)},
    {"a": (1, 3)},
    {"a": (1.0, 2.0)},
    {"a": ((1, 2), (3, 4))},
    {"a": ((1, 2), (3, 5))},
    {"a": DType.FLOAT32},
    {"a": DType.FLOAT64},
    {"a": DType.FLOAT32, "b": 1},
    {"b": DType.FLOAT32},
]


@pytest.mark.parametrize("name", ["key", "key_to_lift"])
def test_attributes_distinguish_nodes(name):
    def key(attributes):
        net = Net(attributes=dict(attributes))
        net.node.inputs = ()
        return keys(net)[name]

    def keys(net):
        net.node.results[0].fact = FACT
        return {"key": net.repetition.key(net.node, 1), "key_to_lift": net.repetition.export_key(net.node)}

    found = [key(each) for each in ATTRIBUTES]
    assert len({repr(each) for each in found}) == len(ATTRIBUTES)
    assert all(key(each) == one for each, one in zip(ATTRIBUTES, found, strict=True))
    deep, stored, body = {"a": (((1,),),)}, {"a": storage_of([1.0], DType.FLOAT32)}, {"a": Graph()}
    assert [key(each) for each in (deep, stored, body, {"a": (1, stored["a"])})] == [None] * 4


def test_rule_cache_key_compares_attributes_by_value():
    net = Net()
    keys = set()
    for number in range(5000):
        # Freed objects: later objects may have equal ids.
        net.node.attributes = {"a": (number % 7, float(number % 3))}
        keys.add((number % 7, number % 3, net.repetition.key(net.node, 1)))
    assert len(keys) == len({key for _, _, key in keys}) == 21


def test_operands_distinguish_nodes():
    net = Net()
    graph, x, z, c = net.graph, net.x, net.z, net.c
    h = graph.insert_before(net.node, Node("Relu", [x], [Value("h", FACT)], dialect="d")).output
    other = net.constant([1.0, 2.0])
    literal = net.constant([1.0, 2.0])
    literal.storage, literal.fact, literal.is_literal = c.storage, c.fact, True
    same = net.constant([1.0, 2.0])
    same.storage, same.fact = c.storage, c.fact

    def key(*operands):
        net.node.inputs = operands
        return net.repetition.key(net.node, 1)

    different = [
        (),
        (x,),
        (None, x),
        (x, x),
        (x, z),
        (h,),
        (c,),
        (other,),
        (literal,),
        (x, z, x),
        (x, z, z),
    ]
    assert len({repr(key(*each)) for each in different}) == len(different)
    for one, two in (((x,), (z,)), ((x, x), (z, z)), ((c,), (same,)), ((x, z, x), (z, x, z))):
        assert key(*one) == key(*two)
    large = net.constant(np.zeros(MAX_READ_BYTES // 4 + 1))
    assert key(large) is None
    assert key(net.constant(np.zeros(MAX_READ_BYTES // 4))) is not None
    absent = key(graph.add_constant("k", FACT, None))
    assert absent not in {None, *[key(*each) for each in different]}
    assert key(graph.add_constant("k", FACT, None)) == absent


def test_rule_cache_key_includes_version_op_type_and_used_results():
    net = Net(outputs=2)
    keys = [net.repetition.key(net.node, 1), net.repetition.key(net.node, 2), net.repetition.key(net.node, None)]
    net.node.restate("Other", "d", {})
    keys.append(net.repetition.key(net.node, 1))
    net.node.restate("Other", "e", {})
    keys.append(net.repetition.key(net.node, 1))
    net.graph.set_outputs(net.node.results[:1])
    net.node.drop_output(1)
    keys.append(net.repetition.key(net.node, 1))
    assert len(set(keys)) == len(keys)


def test_export_key_includes_the_producers_of_operands():
    net = Net()
    graph, x = net.graph, net.x
    made = [
        graph.insert_before(net.node, Node(op_type, [x], [Value(op_type, FACT)], dialect="d")).output
        for op_type in ("A", "B")
    ]
    raw = graph.insert_before(net.node, Node("Relu", [x], [Value("r", FACT)])).output

    def key(*operands):
        net.node.inputs = operands
        return net.repetition.export_key(net.node)

    assert key(raw) is None  # the original graph may still be inspected
    keys = [key(x), key(made[0]), key(made[1]), key(made[0], x)]
    assert len({repr(each) for each in keys}) == len(keys)
    made[0].notes["axis"] = 1
    noted = key(made[0])
    made[0].notes["axis"] = 2
    assert len({repr(each) for each in (noted, key(made[0]), keys[1])}) == 3
    made[0].notes.clear()
    made[0].notes["text"] = "a"
    assert key(made[0]) == keys[1]
    graph.set_outputs([x])
    returned = key(made[0])
    assert returned != keys[1]  # whether a result is returned counts


def test_rule_cache_key_includes_elements_of_small_constants():
    fact = TensorFact(DType.FLOAT32, (2,))
    graph = Graph()
    x = graph.add_input("x", fact)
    keys = []
    repetition = RuleCache(graph)
    for numbers in ([2.0, 0.0], [2.0, 0.0], [2.0, -0.0], [2.0, 1.0]):
        constant = graph.add_constant("c", fact, storage_of(np.array(numbers, np.float32)))
        node = graph.append(Node("Power", [x, constant], [Value(graph.fresh("y"))], dialect="openvino"))
        keys.append(repetition.key(node, None))
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_op_types_without_replays_are_no_longer_cached():
    net = Net()
    emitted = net.made("Made", net.x)
    for _ in range(_MAX_UNUSED):
        net.kept(emitted)
    assert net.repetition.export_key(net.node) is not None
    net.repetition.remember("other", net.node, [emitted], emitted.outputs, net.repetition.state_before())
    assert net.repetition.export_key(net.node) is None
    assert net.repetition.key(net.node, None) is None


def test_replays_keep_an_op_type_cached():
    net = Net()
    template = net.kept(net.made("Made", net.x, net.c))
    for _ in range(_MAX_UNUSED + 1):
        net.repetition.repeat(net.graph, net.node, template)
        net.node.restate("Word", "d", {})
        net.kept(net.made("Made", net.x, net.c))
    assert net.repetition.key(net.node, None) is not None
