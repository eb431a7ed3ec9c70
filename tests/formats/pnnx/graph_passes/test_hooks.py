"""PNNX lists, tuples and numbers are imported as operands, results and attributes, and exported as numbers again."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pnnx.graph_passes.hooks import after_export, before, before_export
from graphport.formats.pytorch.rules.binding import COMPLEX, ITEM, KEYS, PLACE
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.laws import computed

F32 = DType.FLOAT32
FACT = TensorFact(F32, (2, 3))
NUMBERS: list[Any] = [0, 7, -2, True, 1.5, None, "nearest"]


class Net:
    def __init__(self, *facts: Any) -> None:
        self.graph: Any = Graph()
        self.inputs = [self.graph.add_input(f"x{place}", fact) for place, fact in enumerate(facts or (FACT,) * 3)]

    def put(self, op_type: str, *operands: Any, results=1, fact: Any = UNKNOWN, dialect="pnnx", **told: Any) -> Any:
        made = [Value(self.graph.fresh("v"), fact) for _ in range(results)]
        return self.graph.append(Node(op_type, list(operands), made, told, dialect=dialect))

    def value(self, op_type: str, *operands: Any, **told: Any) -> Value:
        return self.put(op_type, *operands, **told).output

    def constant(self, array: Any) -> Value:
        storage = storage_of(np.asarray(array))
        return self.graph.add_constant(self.graph.fresh("c"), TensorFact.of(storage), storage)

    def number(self, rng: Any, number: Any) -> Value:
        """Return a number in one of its two forms."""
        if isinstance(number, int | float) and not isinstance(number, bool) and rng.random() < 0.5:
            return self.value("Expression", expr=str(number))
        if isinstance(number, str) and rng.random() < 0.5:
            return self.value("Expression", expr=number)
        return self.value("prim::Constant", value=number)


def drawn_list(net: Net, rng: Any, depth: int = 0) -> tuple[Value, list[Any] | tuple[Any, ...]]:
    """Return a list, and its items: a tuple if all are numbers."""
    op_type = str(rng.choice(["prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct"]))
    operands: list[Any] = []
    told: list[Any] = []  # of each operand its number in a tuple, or the items that it is
    for _ in range(int(rng.integers(0, 4))):
        kind = rng.random()
        if kind < 0.4:
            operand: Any = net.inputs[int(rng.integers(3))]
            told.append([operand])
        elif kind < 0.7:
            number = NUMBERS[int(rng.integers(len(NUMBERS)))]
            operand = net.number(rng, number)
            told.append((number,))
        elif depth < 2:
            operand, inner = drawn_list(net, rng, depth + 1)
            told.append((inner,) if isinstance(inner, tuple) else inner)
        else:
            continue
        operands += [net.value("prim::Constant", value="key"), operand] if "Dict" in op_type else [operand]
    value = net.value(op_type, *operands)
    if told and "Dict" not in op_type and all(isinstance(each, tuple) for each in told):
        return value, tuple(each[0] for each in told)
    return value, [item for each in told for item in ([each] if isinstance(each, tuple) else each)]


def is_item(value: Value | None, item: Any) -> bool:
    """Return whether an operand equals an item of a list: a tensor, a constant number, or None."""
    if not isinstance(item, tuple):
        return value is item
    number = item[0]
    if not isinstance(number, int | float):
        return value is None
    if value is None or value.storage is None:
        return False
    dtype = DType.INT64 if isinstance(number, int) else F32
    return value.storage.dtype is dtype and value.storage.shape == () and value.storage.numpy() == number


def test_items_of_lists_are_operands_and_numbers_are_attributes():
    rng = np.random.default_rng(0)
    seen = set()
    for case in range(150):
        net = Net()
        operands, expected = [], []
        for _ in range(int(rng.integers(1, 5))):
            kind = str(rng.choice(["tensor", "nothing", "number", "list"]))
            if kind == "list":
                value, items = drawn_list(net, rng)
                kind = "numbers" if isinstance(items, tuple) else kind
            elif kind == "number":
                items = NUMBERS[int(rng.integers(len(NUMBERS)))]
                value = net.number(rng, items)
            else:
                value = items = net.inputs[int(rng.integers(3))] if kind == "tensor" else None
            operands.append(value)
            expected.append((kind, items))
            seen.add(kind)
        while expected and expected[-1][0] == "nothing":  # nothing at the end is no operand
            expected.pop()
            operands.pop()
        names = [str(rng.choice(["", "input", "dims"])) for _ in range(int(rng.integers(0, 5)))]
        told = {KEYS: tuple(f"{name}{place}" if name else "" for place, name in enumerate(names))} if names else {}
        node = net.put("torch.word", *operands, own=3, **told)
        net.graph.set_outputs([node.output])
        before(net.graph)
        verify(net.graph)
        assert list(net.graph) == [node], case
        keys = list(told.get(KEYS, ()))
        called = [
            keys[place] if place < len(keys) and keys[place] else f"{PLACE}{place}" for place in range(len(operands))
        ]
        found: list[Any] = []
        names_, attributes = [], {"own": 3}
        for name, (kind, items) in zip(called, expected, strict=True):
            if kind in ("number", "numbers"):
                attributes[name] = items
            elif kind == "list":
                found += items
                names_ += [f"{name}{ITEM}"] * len(items)
            else:
                found.append(items)
                names_.append(name)
        if all(kind in ("tensor", "nothing") for kind, _ in expected):
            assert node.attributes == {"own": 3} | told
            continue
        own = dict(node.attributes)
        assert own.pop(KEYS) == tuple(names_), case
        assert repr(dict(sorted(own.items()))) == repr(dict(sorted(attributes.items()))), case
        inputs = [*node.inputs, *[None] * (len(found) - len(node.inputs))]
        assert all(is_item(value, item) for value, item in zip(inputs, found, strict=True)), case
    assert seen == {"tensor", "nothing", "number", "numbers", "list"}


def test_lists_that_are_texts_have_items_too():
    scalar = TensorFact(DType.INT64, ())
    for expr, facts, items in (
        ("[@0,@1]", (FACT, FACT), ["@0", "@1"]),
        ("[@1,@0,@1]", (FACT, FACT), ["@1", "@0", "@1"]),
        ("[@0,None]", (FACT, FACT), ["@0", None]),
        ("[None,None]", (FACT, FACT), [None, None]),
        ("[add(@0,1),@1]", (FACT, FACT), ["add(@0,1)", "@1"]),
        ("[@0,@1]", (FACT, scalar), None),
        ("[@0,2]", (FACT, FACT), None),
        ("[add(1,2),@0]", (FACT, FACT), None),
        ("[size(@0,1),@1]", (FACT, FACT), None),
        ("[@0,@7]", (FACT, FACT), None),
        ("[@0]", (TensorFact(DType.BOOL, ()), FACT), ["@0"]),
        ("add(@0,@1)", (FACT, FACT), None),
        ("[mul(@1,2)]", (FACT, scalar), None),
    ):
        net = Net(*facts)
        listed = net.value("Expression", *net.inputs, expr=expr)
        node = net.put("torch.word", listed)
        net.graph.set_outputs([node.output])
        before(net.graph)
        verify(net.graph)
        if items is None:
            assert list(node.inputs) == [listed], expr
            continue
        assert node.attributes[KEYS] == (f"{PLACE}0{ITEM}",) * len(items), expr
        inputs = [*node.inputs, *[None] * (len(items) - len(node.inputs))]
        for value, item in zip(inputs, items, strict=True):
            if item is None:
                assert value is None
            elif item.startswith("@"):
                assert value is net.inputs[int(item[1:])]
            else:
                assert (value.producer.op_type, value.producer.attributes) == ("Expression", {"expr": item})
                assert list(value.producer.inputs) == net.inputs


def test_numbers_that_are_texts_are_numbers():
    for expr, number in (("3", 3), ("-1.5", -1.5), ("[1,2]", (1, 2)), ("[1,[2]]", "[1,[2]]"), ("zeros", "zeros")):
        net = Net()
        node = net.put("torch.word", net.inputs[0], net.value("Expression", expr=expr))
        net.graph.set_outputs([node.output])
        before(net.graph)
        assert (node.attributes[f"{PLACE}1"], list(net.graph)) == (number, [node]), expr


def test_what_is_unpacked_is_read_as_it_was_or_is_of_its_maker():
    for unpack in ("prim::TupleUnpack", "prim::ListUnpack"):
        net = Net()
        first, second = net.put(unpack, net.value("prim::ListConstruct", *net.inputs[:2]), results=2).results
        net.graph.set_outputs([net.value("torch.a", second), net.value("torch.b", first)])
        before(net.graph)
        assert [(node.op_type, node.operands) for node in net.graph] == [
            ("torch.a", [net.inputs[1]]),
            ("torch.b", [net.inputs[0]]),
        ]
        net = Net()
        made = net.value("torch.split", net.inputs[0])
        first, second = net.put(unpack, made, results=2).results
        net.graph.set_outputs([second, first])
        before(net.graph)
        verify(net.graph)
        assert [(node.op_type, node.outputs) for node in net.graph] == [("torch.split", (first, second))]
        for kind in ("read", "returned", "several", "input"):
            net = Net()
            maker = net.put("torch.split", net.inputs[0], results=2 if kind == "several" else 1)
            made = net.inputs[0] if kind == "input" else maker.results[0]
            first, second = net.put(unpack, made, results=2).results
            shown = [second, first]
            if kind == "read":
                shown.append(net.value("torch.other", made))
            elif kind == "returned":
                shown.append(made)
            net.graph.set_outputs(shown)
            before(net.graph)
            assert unpack in [node.op_type for node in net.graph], kind


def test_a_tuple_that_is_returned_is_several_results():
    net = Net()
    a, b = (net.value("torch.word", net.inputs[0]) for _ in range(2))
    inner = net.value("prim::ListConstruct", b, net.value("prim::Constant", value=None))
    net.graph.set_outputs([net.value("prim::TupleConstruct", a, inner, net.inputs[1])])
    before(net.graph)
    assert net.graph.outputs == [a, b, net.inputs[1]]
    net = Net()
    a = net.value("torch.word", net.inputs[0])
    net.graph.set_outputs([net.value("prim::DictConstruct", net.value("prim::Constant", value="k"), a)])
    before(net.graph)
    assert net.graph.outputs == [a]


def test_results_at_the_end_without_consumers_go_and_nodes_that_compute_stay():
    net = Net()
    made = net.put("torch.topk", net.inputs[0], results=3)
    unread = net.put("torch.word", net.inputs[0], results=2)
    for op_type in ("prim::TupleUnpack", "prim::ListConstruct", "Expression", "prim::Constant", "SliceIndexes"):
        net.put(op_type, net.inputs[0])
    foreign = net.put("Expression", net.inputs[0], dialect="custom")
    net.graph.set_outputs([made.results[1]])
    before(net.graph)
    assert list(net.graph) == [made, unread, foreign]
    assert (len(made.outputs), len(unread.outputs)) == (2, 2)


def test_complex_numbers_are_pairs_where_all_op_types_have_a_rule():
    whole = TensorFact(DType.COMPLEX64, (2, 3))
    for op_type, is_paired in (("aten::real", True), ("aten::word", False)):
        for kind in ("", "returned", "input"):
            net = Net(FACT, *([whole] if kind == "input" else []))
            given = net.inputs[1:] if kind == "input" else net.inputs * 2
            z = net.value("torch.conj" if kind == "input" else "torch.complex", *given, fact=whole)
            y = net.value(op_type, z, fact=FACT)
            net.graph.set_outputs([y, z] if kind == "returned" else [y])
            before(net.graph)
            words = [node.op_type for node in net.graph]
            if not words[0].startswith(COMPLEX):
                assert z.fact == whole
                assert not any(each.startswith(COMPLEX) for each in words)
                assert kind or not is_paired
                continue
            assert (is_paired, kind) == (True, "")
            assert z.fact == TensorFact(F32, (2, 3, 2))
            assert words == [f"{COMPLEX}torch.complex", f"{COMPLEX}aten::real"]
            assert [node.attributes[COMPLEX] for node in net.graph] == [(False, False), (True,)]


def test_complex_constants_are_pairs_of_their_parts():
    for kind, real in (("complex64", F32), ("complex128", DType.FLOAT64)):
        net = Net()
        numbers = np.array([[1 + 2j, -3j, 4]], kind)
        z = net.constant(numbers)
        net.graph.set_outputs([net.value("torch.real", z, fact=TensorFact(real, (1, 3)))])
        before(net.graph)
        assert z.fact == TensorFact(real, (1, 3, 2))
        assert (z.storage.dtype, z.storage.shape) == (real, (1, 3, 2))
        np.testing.assert_array_equal(z.storage.numpy(), np.stack([numbers.real, numbers.imag], -1))


def test_what_gives_nothing_or_several_is_no_number():
    net = Net()
    none = net.put("prim::Constant", results=2, value=3)
    node = net.put("torch.word", *none.results)
    net.put("Expression", results=2, expr="3")
    net.graph.set_outputs([node.output])
    before(net.graph)
    assert node.operands == none.results


# ── and back ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_number_is_written_where_expressions_read_it_and_a_tensor_where_others_do():
    for array, text in ((np.float32(1.5), "1.5"), (np.int64(-3), "-3"), (np.float32([1.5]), None)):
        for readers in (["Expression"], ["torch.word"], ["Expression", "torch.word", "Expression"], []):
            net = Net()
            constant = net.constant(array)
            found = [
                net.put(op_type, net.inputs[0], constant, **({"expr": "add(@0,@1)"} if op_type == "Expression" else {}))
                for op_type in readers
            ]
            net.graph.set_outputs([node.output for node in found] or [net.inputs[0]])
            after_export(net.graph)
            verify(net.graph)
            for node in found:
                value = node.operands[1]
                if text is None:
                    assert value is constant
                elif node.op_type == "Expression":
                    assert (value.producer.op_type, value.producer.attributes) == ("Expression", {"expr": text})
                    assert not value.producer.inputs
                else:
                    assert value.producer.op_type == "torch.squeeze"
                    (weight,) = value.producer.operands
                    assert weight.storage.shape == (1,)
                    assert weight.storage.numpy() == array
            words = [node.op_type for node in net.graph if node not in found]
            wanted = {"Expression": "Expression", "torch.word": "torch.squeeze"}
            extra = sorted({wanted[op_type] for op_type in readers}) if text is not None else []
            assert sorted(words) == sorted([*extra, *["prim::TupleConstruct"] * (len(found) > 1)])


def test_several_results_are_one_tuple():
    for count in (1, 2, 3):
        net = Net()
        values = [net.value("torch.word", net.inputs[0]) for _ in range(count)]
        net.graph.set_outputs(values)
        after_export(net.graph)
        if count == 1:
            assert net.graph.outputs == values
        else:
            (made,) = net.graph.outputs
            assert (made.producer.op_type, made.producer.operands) == ("prim::TupleConstruct", values)


def test_weights_that_are_computed_in_steps_are_computed():
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = np.ones((2, 3), np.float32)
    for kind in ("two steps", "one step", "read", "of an input", "no layer"):
        net = Net(FACT, TensorFact(F32, (4,)))
        turned = net.value("Transpose", net.constant(w.T), dialect="", perm=(1, 0), fact=TensorFact(F32, (3, 4)))
        if kind != "one step":
            other = net.inputs[1] if kind == "of an input" else net.constant(np.float32([1, 2, 3, 4]))
            turned = net.value("Mul", turned, other, dialect="", fact=TensorFact(F32, (3, 4)))
        op_type = "Add" if kind == "no layer" else "MatMul"
        first = net.constant(np.ones((3, 4), np.float32)) if kind == "no layer" else net.inputs[0]
        y = net.value(op_type, first, turned, dialect="", fact=TensorFact(F32, (2, 4)))
        net.graph.set_outputs([y, turned] if kind == "read" else [y])
        words = [node.op_type for node in net.graph]
        before_export(net.graph)
        verify(net.graph)
        found = [node.op_type for node in net.graph]
        if kind == "two steps":
            assert found == ["MatMul"]
            np.testing.assert_array_equal(computed(net.graph, {"x0": x, "x1": w[0]})[0], x @ (w * [1, 2, 3, 4]))
        elif kind == "read":
            assert found == words
            assert y.producer.operands[1].is_constant
        else:
            assert found == words, kind
            assert y.producer.operands[1] is turned
