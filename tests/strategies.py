"""What tests on random graphs draw from: dims, facts, storages, attributes, and graphs that `verify` accepts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import nan

import numpy as np
from hypothesis import strategies as st

from graphport.core.dims import Dim, Symbol, Symbolic, maximum
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, OptionalFact, SequenceFact, TensorFact
from graphport.core.storage import ArrayStorage, Storage, unpack
from graphport.ir.graph import Attribute, Graph, Node, Value

WORDS = ("Add", "Concat", "Conv", "If", "LSTM", "Relu", "Reshape", "Split")
DIALECTS = ("", "", "", "com.microsoft", "nnef", "openvino", "pnnx")

SYMBOLS = (
    Symbol("N"),
    Symbol("batch size", 1, 64),
    Symbol("H", 1),
    Symbol("W", 7, 7000),
    Symbol("offset", None, 3),
    Symbol("anything", None, None),
    Symbol("-1"),
    Symbol("max"),
)
"""One name means one number: every graph that is drawn gives them these bounds."""

dtypes = st.sampled_from(list(DType))
names = st.one_of(
    st.sampled_from(["x", "y", "conv1/weight", "a.b", "x_1"]),
    st.text(min_size=1, max_size=6),
    st.text(st.characters(categories=["Cs", "Cc", "Zl", "Cf", "Po"]), min_size=1, max_size=3),
)


@st.composite
def dims(draw: st.DrawFn) -> Dim:
    """An integer, a symbol of `SYMBOLS`, or an expression over them."""
    dim: Dim = draw(st.one_of(st.integers(0, 1 << 40), st.sampled_from(SYMBOLS)))
    for _ in range(draw(st.integers(0, 3))):
        other = draw(st.one_of(st.integers(1, 9), st.sampled_from(SYMBOLS)))
        match draw(st.sampled_from("+-*/m")):
            case "+":
                dim = dim + other
            case "-":
                dim = dim - other
            case "*":
                dim = dim * other
            case "/":
                dim = dim if isinstance(other, Symbolic) else dim // other
            case _:
                dim = maximum(dim, other)
    return dim


@cache
def tensor_facts() -> st.SearchStrategy[TensorFact]:
    """With and without element type, shape, elements and reals, which need not fit each other."""
    return st.builds(
        TensorFact,
        st.none() | dtypes,
        st.none() | st.lists(dims(), max_size=4).map(tuple),
        st.none() | st.lists(dims(), max_size=4).map(tuple),
        st.none() | st.lists(st.floats(allow_nan=False) | st.just(nan), max_size=3).map(tuple),
    )


@cache
def facts() -> st.SearchStrategy[Fact]:
    """Of tensors, lists and optional values, nested."""
    return st.just(UNKNOWN) | st.recursive(
        tensor_facts(), lambda inner: st.builds(SequenceFact, inner) | st.builds(OptionalFact, inner), max_leaves=3
    )


@st.composite
def storages(draw: st.DrawFn, dtypes: st.SearchStrategy[DType] = dtypes) -> Storage:
    """A small tensor of any element type with any bits, those of odd NaNs included."""
    dtype = draw(dtypes)
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    count = int(np.prod(shape))
    if dtype is DType.STRING:
        texts = draw(st.lists(st.text(max_size=4) | st.binary(max_size=4), min_size=count, max_size=count))
        array = np.empty(count, object)
        array[:] = texts
        return ArrayStorage(array.reshape(shape), dtype)
    size = dtype.size(count)
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    if dtype.bits < 8:
        return ArrayStorage(unpack(raw, dtype, shape), dtype)
    if dtype is DType.BOOL:
        return ArrayStorage((raw % 2 == 1).reshape(shape), dtype)
    return ArrayStorage(raw.view(dtype.numpy).reshape(shape), dtype)


@cache
def attributes() -> st.SearchStrategy[Attribute]:
    """Every kind but graphs, tuples nested."""
    floats = st.floats(width=64) | st.sampled_from([0.0, -0.0, 1.0, 0.1])
    numbers = st.integers(-(1 << 70), 1 << 70) | floats | st.complex_numbers() | st.booleans()
    leaves = st.none() | numbers | names | st.binary(max_size=5) | dtypes | facts() | storages()
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


# Strategies are made once: drawing from one is quick, making one is not.
_FEW = st.integers(0, 2)
_SOME = st.integers(0, 3)
_MOSTLY = st.sampled_from([True, True, True, False])
_OPSETS = st.dictionaries(names, st.integers(1, 99), max_size=2)
_FACTS = st.lists(facts(), min_size=1, max_size=3)
_STORAGES = st.lists(st.none() | storages(), min_size=1, max_size=3)
_ATTRIBUTES = st.lists(st.dictionaries(names, attributes(), max_size=2), min_size=1, max_size=3)
_TEXTS = st.lists(names, min_size=1, max_size=5)


@st.composite
def graphs(draw: st.DrawFn, *, most_nodes: int = 6, nesting: int = 2) -> Graph:
    """A graph that `verify` accepts and that need not mean anything.

    With inputs, constants (some without numbers, some literal), several dialects, nodes with absent operands and
    results, bodies in bodies that read what is around them, and values returned twice.

    Args:
        draw: given by hypothesis.
        most_nodes: in the graph; bodies have fewer.
        nesting: how deep bodies may lie in each other.
    """
    graph = Graph(draw(names), opsets=draw(_OPSETS))
    _Filler(draw, graph).fill(graph, [], most_nodes, nesting)
    return graph


class _Filler:
    """Facts, names and attributes are drawn once and used again and again, which is much quicker."""

    def __init__(self, draw: st.DrawFn, root: Graph) -> None:
        self.draw = draw
        self.root = root
        self.facts = st.sampled_from(draw(_FACTS))
        self.storages = st.sampled_from(draw(_STORAGES))
        self.attributes = st.sampled_from(draw(_ATTRIBUTES))
        texts = draw(_TEXTS)
        self.names = st.sampled_from(texts)
        self.node_names = st.sampled_from(["", *texts])
        self.words = st.sampled_from([*WORDS, *texts])
        self.dialects = st.sampled_from([*DIALECTS, *texts])

    def fill(self, graph: Graph, outer: Sequence[Value], most_nodes: int, nesting: int) -> None:
        visible = list(outer)
        visible += [graph.adopt_input(self.value()) for _ in range(self.draw(_FEW))]
        visible += [graph.adopt_constant(self.constant()) for _ in range(self.draw(_FEW))]
        for _ in range(self.draw(st.integers(0, most_nodes))):
            node = self.node(visible)
            if nesting and not self.draw(_MOSTLY):
                body = Graph(self.draw(self.names))
                self.fill(body, visible, most_nodes // 2, nesting - 1)
                node.set_attribute("body", self.draw(st.sampled_from([body, (body, 1), ((), (body,))])))
            graph.append(node)
            visible += node.results
        if visible:
            graph.set_outputs(self.draw(st.sampled_from(visible)) for _ in range(self.draw(_SOME)))

    def value(self) -> Value:
        return Value(self.root.fresh(self.draw(self.names)), self.draw(self.facts))

    def constant(self) -> Value:
        value = self.value()
        value.storage = self.draw(self.storages)
        if value.storage is not None and self.draw(_MOSTLY):
            value.fact = TensorFact.of(value.storage)
        value.is_literal = not self.draw(_MOSTLY)
        return value

    def node(self, visible: Sequence[Value]) -> Node:
        operands = st.sampled_from([None, *visible])
        return Node(
            self.draw(self.words),
            [self.draw(operands) for _ in range(self.draw(_SOME))],
            [self.value() if self.draw(_MOSTLY) else None for _ in range(self.draw(_SOME))],
            self.draw(self.attributes),
            dialect=self.draw(self.dialects),
            name=self.draw(self.node_names),
        )
