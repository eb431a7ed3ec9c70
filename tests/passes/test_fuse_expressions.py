"""Element-wise chains are fused into one expression with equal results, and expressions are expanded again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.backends import prepare
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.passes import driver
from graphport.passes.fuse_expressions import (
    EXPAND_EXPRESSIONS,
    FUSE_EXPRESSIONS,
    MAX_EXPRESSION_LENGTH,
    WORD,
    without_expressions,
)


class Net:
    """A graph and short ways to fill it."""

    def __init__(self, **inputs):
        self.graph = Graph()
        self.build = Builder(Inference(), self.graph)
        for name, shape in inputs.items():
            setattr(self, name, self.graph.add_input(name, TensorFact(DType.FLOAT32, shape)))

    def __call__(self, op_type, *operands, **attributes):
        given = [self.build.constant(np.float32(x)) if isinstance(x, float) else x for x in operands]
        return self.build(registry.op_defs()[op_type], *given, **attributes)

    def returning(self, *values):
        self.graph.set_outputs(values)
        return self.graph


def fused(graph):
    twin = rewrite.copy(graph)
    (outcome,) = driver.run(twin, FUSE_EXPRESSIONS)
    verify(twin)
    return twin, outcome


def texts(graph):
    return [str(node.attributes["expression"]) for node in graph if node.op == WORD]


def words(graph):
    return [node.op for node in graph]


def same(one, other, **inputs):
    expected, found = (prepare(graph, "reference").run(inputs) for graph in (one, other))
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=3e-6, atol=1e-6, equal_nan=True)


X = np.array([[-3.0, -0.5, 0.0, 0.25], [1.0, 2.0, np.nan, 90.0]], np.float32)


def test_chain_of_pointwise_operators_becomes_one_expression():
    net = Net(a=(2, 4), b=(4,))
    graph = net.returning(net("Relu", net("Add", net.a, net.b)))
    after, outcome = fused(graph)
    assert texts(after) == ["maximum(add(@0,@1),0)"]
    assert words(after) == [WORD]
    assert outcome.changes == 2
    assert [value.name for value in after.outputs] == [value.name for value in graph.outputs]
    same(graph, after, a=X, b=X[0])


def test_a_single_number_is_written_into_the_text():
    net = Net(a=(2, 4))
    after, _ = fused(net.returning(net("Mul", net("Add", net.a, 0.5), 2.0)))
    assert texts(after) == ["mul(add(@0,0.5),2.0)"]


def test_single_operator_is_not_fused():
    net = Net(a=(2, 4))
    after, outcome = fused(net.returning(net("Relu", net.a)))
    assert (words(after), outcome.changes) == (["Relu"], 0)


def test_value_with_two_consumers_is_not_recomputed():
    net = Net(a=(2, 4))
    shared = net("Exp", net.a)
    graph = net.returning(net("Neg", shared), net("Sqrt", net("Abs", shared)))
    after, _ = fused(graph)
    assert words(after) == ["Exp", "Neg", WORD]
    same(graph, after, a=X)


def test_operand_read_twice_by_one_operator_is_fused():
    net = Net(a=(2, 4))
    shared = net("Exp", net.a)
    graph = net.returning(net("Mul", shared, shared))
    after, _ = fused(graph)
    assert texts(after) == ["mul(exp(@0),exp(@0))"]
    same(graph, after, a=X)


def test_an_output_stays_an_output():
    net = Net(a=(2, 4))
    inner = net("Exp", net.a)
    graph = net.returning(inner, net("Neg", inner))
    after, _ = fused(graph)
    assert words(after) == ["Exp", "Neg"]


def test_smaller_operand_is_not_fused_into_a_broadcast():
    net = Net(a=(2, 4), b=(4,))
    graph = net.returning(net("Add", net.a, net("Exp", net.b)))
    assert words(fused(graph)[0]) == ["Exp", "Add"]


def test_integers_and_float16_values_stay():
    net = Net()
    for dtype in (DType.INT64, DType.FLOAT16):
        net.graph.add_input(str(dtype), TensorFact(dtype, (3,)))
    whole, half = net.graph.inputs
    graph = net.returning(net("Neg", net("Abs", whole)), net("Neg", net("Abs", half)))
    assert words(fused(graph)[0]) == ["Abs", "Neg", "Abs", "Neg"]


def test_other_operators_part_chains():
    net = Net(a=(2, 4))
    middle = net("Softmax", net("Abs", net("Neg", net.a)))
    graph = net.returning(net("Neg", net("Exp", middle)))
    after, _ = fused(graph)
    assert words(after) == [WORD, "Softmax", WORD]
    same(graph, after, a=X[:, :2].repeat(2, 1))


def test_texts_that_double_stop_at_the_limit():
    net = Net(a=(2, 4))
    value = net.a
    for _ in range(40):
        value = net("Mul", value, value)
    after, _ = fused(net.returning(value))
    assert max(map(len, texts(after))) <= MAX_EXPRESSION_LENGTH
    assert sum(text.count("mul") for text in texts(after)) < 20_000


def test_long_chains_are_split_and_each_operator_is_fused_once():
    net = Net(a=(2, 4))
    value = net.a
    for _ in range(3000):
        value = net("Neg", value)
    graph = net.returning(value)
    after, outcome = fused(graph)
    assert outcome.changes == 3000
    assert sum(text.count("neg") for text in texts(after)) == 3000
    same(graph, after, a=X)


def test_expressions_become_operators_again():
    net = Net(a=(2, 4), b=(4,))
    graph = net.returning(net("Sigmoid", net("Sub", net.a, net.b)))
    after, _ = fused(graph)
    (outcome,) = driver.run(after, EXPAND_EXPRESSIONS)
    assert words(after) == ["Sub", "Neg", "Exp", "Add", "Reciprocal"]
    assert outcome.changes == 1
    same(graph, after, a=X, b=X[0])


def test_expression_without_runtime_sizes_is_expanded():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N"), 3)))
    build = Builder(Inference(), graph)
    value = build.graph.add_input("y", TensorFact(DType.FLOAT32, (Symbol("N"), 3)))
    text = "mul(@0,size(@1,1))"
    known = build(registry.op_defs()[WORD], x, value, expression=text.replace("size(@1,1)", "@1"))
    graph.add_output(known)
    assert words(without_expressions(graph)) == ["Mul"]
    assert words(graph) == [WORD]


def test_a_graph_without_expressions_is_the_same_graph():
    net = Net(a=(2, 4))
    graph = net.returning(net("Relu", net.a))
    assert without_expressions(graph) is graph


SMOOTH = ("Exp", "Tanh", "Sigmoid", "Neg", "Abs", "Gelu", "Softplus", "HardSwish", "Elu", "Relu", "Erf", "Softsign")


@given(st.data())
def test_random_graphs_are_equivalent(data):
    net = Net(a=(2, 4), b=(4,), c=(2, 1))
    values = [net.a, net.b, net.c]
    for _ in range(data.draw(st.integers(1, 12))):
        operand = st.sampled_from(values)
        if data.draw(st.booleans()):
            values.append(net(data.draw(st.sampled_from(SMOOTH)), data.draw(operand)))
        else:
            op_type = data.draw(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]))
            values.append(net(op_type, data.draw(operand), data.draw(operand)))
    outputs = data.draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3, unique=True))
    graph = net.returning(*outputs)
    rewrite.remove_dead(graph)
    after, _ = fused(graph)
    bounded = np.tanh(np.nan_to_num(X)) / 2
    arrays = {"a": bounded, "b": bounded[0], "c": bounded[:, :1]}
    expected = prepare(graph, "reference").run(arrays)
    if all(np.abs(array).max() < 1e4 for array in expected.values()):
        same(graph, after, **arrays)


@pytest.mark.parametrize("backend", ["fused", "onnxruntime"])
def test_backends_run_a_graph_with_expressions(backend):
    net = Net(a=(2, 4), b=(4,))
    graph = net.returning(net("Gelu", net("Add", net.a, net.b)))
    after, _ = fused(graph)
    expected = prepare(graph, "reference").run({"a": X, "b": X[0]})
    found = prepare(after, backend).run({"a": X, "b": X[0]})
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=3e-6, atol=1e-6, equal_nan=True)


def test_failed_expansion_of_an_expression_leaves_no_nodes():
    graph = Graph()
    x, y = (graph.add_input(name, TensorFact(DType.FLOAT32, (Symbol("N"), 3))) for name in "xy")
    text = "mul(add(@0,@1),size(@1,1))"
    made = Node(WORD, [x, y], [Value("z", TensorFact(DType.FLOAT32, (Symbol("N"), 3)))], {"expression": text})
    graph.append(made)
    graph.set_outputs([made.output])
    before = str(graph)
    (outcome,) = driver.run(graph, EXPAND_EXPRESSIONS)
    assert str(graph) == before
    assert len(outcome.left) == 1
    made.set_attribute("expression", "mul(add(@0,@1),@1)")
    (outcome,) = driver.run(graph, EXPAND_EXPRESSIONS)
    assert words(graph) == ["Add", "Mul"]
    assert [note.text for note in outcome.done] == ["was mul(add(@0,@1),@1)"]
    assert graph.outputs[0].name == "z"


def test_operands_are_numbered_in_the_order_in_which_they_are_read():
    net = Net(a=(2, 4), b=(2, 4), c=(2, 4))
    graph = net.returning(net("Sub", net("Mul", net.c, net.a), net("Div", net.c, net.b)))
    after, outcome = fused(graph)
    assert texts(after) == ["sub(mul(@0,@1),div(@0,@2))"]
    (made,) = after
    assert [value.name for value in made.operands] == ["c", "a", "b"]
    assert [(note.text, note.count) for note in outcome.done] == [("now sub(mul(@0,@1),div(@0,@2))", 3)]


def test_fused_expression_reads_the_result_of_another_expression():
    net = Net(a=(2, 4))
    inner = net("Exp", net("Neg", net.a))
    graph = net.returning(inner, net("Sqrt", net("Abs", inner)))
    after, outcome = fused(graph)
    assert texts(after) == ["exp(neg(@0))", "sqrt(abs(@0))"]
    first, second = after
    assert second.operands == [first.output]
    assert after.outputs == [first.output, second.output]
    assert outcome.changes == 4
    same(graph, after, a=X)


@pytest.mark.parametrize("most", [16, 17])
def test_expressions_stay_below_max_expression_length(most, monkeypatch):
    monkeypatch.setattr("graphport.passes.fuse_expressions.MAX_EXPRESSION_LENGTH", most)
    net = Net(a=(2, 4))
    # Each has the text `neg({})`, and fused operands count as well.
    after, _ = fused(net.returning(net("Neg", net("Neg", net("Neg", net.a)))))
    assert max(map(len, texts(after))) <= most
    assert sum(text.count("neg") for text in texts(after)) + words(after).count("Neg") == 3


def test_operands_of_another_type_and_no_operands_stay():
    net = Net(a=(2, 4))
    other = net.graph.add_input("d", TensorFact(DType.FLOAT64, (2, 4)))
    unknown = net.graph.add_input("u", TensorFact(DType.FLOAT32, None))
    graph = net.returning(
        net("Neg", net("Cast", other, to=DType.FLOAT32)), net("Neg", net("Abs", unknown)), net("Neg", net("Abs", other))
    )
    assert words(fused(graph)[0]) == ["Cast", "Neg", "Abs", "Neg", WORD]
