from __future__ import annotations

import struct
import textwrap
from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.core.dims import Dim, Symbol, ceil_div, maximum
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, OptionalFact, SequenceFact, TensorFact
from graphport.core.storage import ArrayStorage, Storage, storage_of
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.text import INLINE, MOST_DIGITS, MOST_NESTED, from_text, to_text
from graphport.ir.verify import verify
from tests.draws import times
from tests.every import every
from tests.ir.samples import first, names
from tests.strategies import attributes, dtypes, facts, graphs, storages
from tests.structure import assert_same, assert_same_attribute

EXAMPLE = """\
graph main(%x: float32[N, 3] where N in 1..64, %k: int64[1], %c) opsets {"" = 25, com.microsoft = 1} {
  constant %w = float32[3, 2](0.5, -1.0, 2.0, 0.0, 0.25, nan)
  literal %half: float32[...] = float32[](0.5)
  constant %absent: int8[4]
  %h: float32[N, 2] = MatMul(%x, %w) name "dense"
  _, %i: int64[N, 1]{N} = TopK(%h, _, %k) {axis = -1, sorted = true}
  %y = If(%c) {then_branch = graph then() {
    %/a/b = nnef.relu(%h)
    return %/a/b
  }, else_branch = graph else(%"a b": sequence(float32[?])) {
    return %h
  }}
  () = com.microsoft:Print(%y) {to = "\\u202eme\\n"}
  return %y, %i, %y
}
"""


def node_text(text: str) -> Node:
    return first(from_text(f"graph g() {{ {text} return }}"))


def attribute_of(text: str) -> Any:
    return node_text(f"() = X() {{a = {text}}}").attributes["a"]


def text_of(attribute: Any, **options: Any) -> str:
    graph = Graph("g")
    graph.append(Node("X", attributes={"a": attribute}))
    head, tail = "graph g() {\n  () = X() {a = ", "}\n  return\n}\n"
    text = to_text(graph, **options)
    assert text.startswith(head)
    assert text.endswith(tail)
    return text[len(head) : -len(tail)]


# --- there and back ---------------------------------------------------------------------------------------------------


def test_the_example_is_in_normal_form():
    graph = from_text(EXAMPLE)
    verify(graph)
    assert to_text(graph) == EXAMPLE


def test_example_text_is_parsed():
    graph = from_text(EXAMPLE)
    dense, top, branch, call = graph
    n = Symbol("N", 1, 64)
    assert (graph.name, graph.opsets) == ("main", {"": 25, "com.microsoft": 1})
    assert [(value.name, value.fact) for value in graph.inputs] == [
        ("x", TensorFact(DType.FLOAT32, (n, 3))),
        ("k", TensorFact(DType.INT64, (1,))),
        ("c", UNKNOWN),
    ]
    w, half, absent = graph.constants
    assert (w.fact, half.fact, absent.fact) == (
        TensorFact(DType.FLOAT32, (3, 2)),
        TensorFact(DType.FLOAT32, None),
        TensorFact(DType.INT8, (4,)),
    )
    assert w.storage is not None
    assert np.array_equal(w.storage.numpy(), np.array([[0.5, -1], [2, 0], [0.25, np.nan]]), equal_nan=True)
    assert [value.is_literal for value in graph.constants] == [False, True, False]
    assert absent.storage is None
    assert (dense.op, dense.name, names(dense.inputs), dense.attributes) == ("MatMul", "dense", ["x", "w"], {})
    assert (names(top.outputs), names(top.inputs), top.attributes) == (
        [None, "i"],
        ["h", None, "k"],
        {"axis": -1, "sorted": True},
    )
    assert top.results[0].fact == TensorFact(DType.INT64, (n, 1), (n,))
    then, other = branch.bodies()
    assert (then.name, first(then).dialect, first(then).op_type, names(then.outputs)) == (
        "then",
        "nnef",
        "relu",
        ["/a/b"],
    )
    assert (other.outputs, names(other.inputs), len(other)) == ([dense.output], ["a b"], 0)
    assert (call.dialect, call.op_type, call.outputs, call.attributes) == (
        "com.microsoft",
        "Print",
        (),
        {"to": "\u202eme\n"},
    )
    assert names(graph.outputs) == ["y", "i", "y"]


@given(graphs())
def test_graph_text_round_trips(graph):
    text = to_text(graph, inline=None)
    read = from_text(text)
    verify(read)
    assert_same(graph, read, with_notes=False)
    assert to_text(read, inline=None) == text


@given(graphs())
def test_tensors_round_trip_through_a_table(graph):
    table: dict[str, Storage] = {}

    def refer(storage: Storage) -> str:
        table[name := f"tensor {len(table)}"] = storage
        return name

    text = to_text(graph, inline=0, refer=refer)
    read = from_text(text, table=table)
    assert_same(graph, read, with_notes=False)
    referred = [value.storage for inner in walk(read) for value in inner.values() if value.storage is not None]
    assert all(storage in table.values() for storage in referred if storage.count)


@given(attributes())
@example(True)
@example(-0.0)
@example(1 << 4000)
@example(complex(-0.0, float("-inf")))
@example(((), ((),), ((), ())))
@example("graph")
@example(b'"\\\n\xff')
@example("\ud800\u2028\U0010ffff")
def test_attribute_text_round_trips(attribute):
    assert_same_attribute(attribute, attribute_of(text_of(attribute, inline=None)), {})


@given(facts())
def test_fact_text_round_trips(fact):
    read = attribute_of(text_of(fact))
    assert read == fact
    assert hash(read) == hash(fact)


@pytest.mark.parametrize("dtype", DType, ids=str)
@settings(max_examples=times(25))
@given(data=st.data())
def test_tensors_round_trip_bit_for_bit(dtype, data):
    storage = data.draw(storages(st.just(dtype)))
    assert_same_attribute(storage, attribute_of(text_of(storage, inline=None)), {})


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_floating and dtype.bits <= 8], ids=str)
def test_every_8_bit_float_round_trips(dtype):
    every = np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    storage = ArrayStorage(every, dtype)
    assert_same_attribute(storage, attribute_of(text_of(storage, inline=None)), {})


# --- how it looks -----------------------------------------------------------------------------------------------------


@every(
    ("attribute", "text"),
    [
        pytest.param(None, "none", id="none"),
        pytest.param(True, "true", id="bool"),
        pytest.param(-12, "-12", id="int"),
        pytest.param(1.0, "1.0", id="float"),
        pytest.param(np.float64(0.1), "0.1", id="a NumPy float"),
        pytest.param(1e300, "1e+300", id="large float"),
        pytest.param(float("-inf"), "-inf", id="infinity"),
        pytest.param(float("nan"), "nan", id="nan"),
        pytest.param(1 - 0.5j, "complex(1.0, -0.5)", id="complex"),
        pytest.param('a"b\\c\n\t\rd\x00é\x85', '"a\\"b\\\\c\\n\\t\\rd\\u0000é\\u0085"', id="str"),
        pytest.param("a\\b", '"a\\\\b"', id="backslash"),
        pytest.param("\U000e0001", '"\\U000e0001"', id="a character that is not seen"),
        pytest.param(b'a"\\\x00\n~\x7f\xff', 'b"a\\"\\\\\\x00\\n~\\x7f\\xff"', id="bytes"),
        pytest.param(DType.FLOAT8E4M3FN, "float8_e4m3fn", id="dtype"),
        pytest.param((), "()", id="empty tuple"),
        pytest.param((1,), "(1)", id="tuple of one"),
        pytest.param((1, (2.0, ("a",)), ()), '(1, (2.0, ("a")), ())', id="nested tuple"),
        pytest.param(UNKNOWN, "?[...]", id="unknown fact"),
        pytest.param(TensorFact(DType.INT64, ()), "int64[]", id="fact of a scalar"),
        pytest.param(TensorFact(None, (2, Symbol("N"))), "?[2, N]", id="fact without element type"),
        pytest.param(TensorFact(DType.INT64, (2,), (-1, Symbol("N") + 1)), "int64[2]{-1, N+1}", id="elements"),
        pytest.param(TensorFact(DType.INT64, (0,), ()), "int64[0]{}", id="no elements"),
        pytest.param(TensorFact(DType.FLOAT32, (2,), None, (0.5, nan)), "float32[2]<0.5, nan>", id="reals"),
        pytest.param(TensorFact(DType.FLOAT32, (0,), (), ()), "float32[0]{}<>", id="no reals"),
        pytest.param(
            SequenceFact(OptionalFact(TensorFact(DType.BOOL, None))), "sequence(optional(bool[...]))", id="sequence"
        ),
        pytest.param(storage_of(1.5, DType.FLOAT16), "float16[](1.5)", id="scalar"),
        pytest.param(storage_of([[0.1, 1e20]], DType.FLOAT32), "float32[1, 2](0.1, 1e+20)", id="floats"),
        pytest.param(storage_of([-8, 7], DType.INT4), "int4[2](-8, 7)", id="small integers"),
        pytest.param(
            storage_of([1 << 63, (1 << 64) - 1], DType.UINT64), f"uint64[2]({1 << 63}, {(1 << 64) - 1})", id="uint64"
        ),
        pytest.param(storage_of([-1 << 63], DType.INT64), f"int64[1]({-1 << 63})", id="int64"),
        pytest.param(storage_of([True, False]), "bool[2](true, false)", id="bools"),
        pytest.param(storage_of([1 - 2j], DType.COMPLEX64), "complex64[1](1.0, -2.0)", id="complex tensor"),
        pytest.param(storage_of(np.array(["a", b"\x00"], object)), 'string[2]("a", b"\\x00")', id="texts"),
        pytest.param(storage_of(np.zeros((2, 0, 3))), "float64[2, 0, 3]()", id="empty tensor"),
        pytest.param(
            storage_of(np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)),
            "float32[2](nan, nan:0xffc00001)",
            id="odd nan",
        ),
    ],
)
def test_attributes_look_like_this(attribute, text):
    assert text_of(attribute) == text
    if isinstance(attribute, Storage):
        assert_same_attribute(attribute, attribute_of(text), {})
    elif attribute is not None:
        assert attribute_of(text) == attribute or text == "nan"
        assert isinstance(attribute, type(attribute_of(text)))


@pytest.mark.parametrize(
    ("dialect", "op_type", "text"),
    [
        pytest.param("", "Conv", "Conv", id="canonical"),
        pytest.param("nnef", "conv", "nnef.conv", id="dialect"),
        pytest.param("openvino", "opset1.Add", "openvino.opset1.Add", id="point in the word"),
        pytest.param("com.microsoft", "Gelu", "com.microsoft:Gelu", id="point in the dialect"),
        pytest.param("", "a.b", '"":a.b', id="point in a canonical word"),
        pytest.param("pnnx", "aten::add", 'pnnx:"aten::add"', id="colon in the word"),
        pytest.param("", "", '"":""', id="nothing"),
        pytest.param("x", "", "x.", id="no word"),
        pytest.param("", "return", "return", id="a word of the grammar"),
    ],
)
def test_operators_look_like_this(dialect, op_type, text):
    graph = Graph("g")
    graph.append(Node(op_type, dialect=dialect))
    assert to_text(graph) == f"graph g() {{\n  () = {text}()\n  return\n}}\n"
    node = node_text(f"() = {text}()")
    assert (node.dialect, node.op_type) == (dialect, op_type)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("x", "%x", id="word"),
        pytest.param("/layer.0/Conv_1", "%/layer.0/Conv_1", id="path"),
        pytest.param("变量", "%变量", id="letters of other scripts"),
        pytest.param("_", "%_", id="underscore"),
        pytest.param("a:0", '%"a:0"', id="colon"),
        pytest.param('a"b', '%"a\\"b"', id="quote"),
        pytest.param("", '%""', id="nothing"),
    ],
)
def test_values_look_like_this(name, text):
    graph = Graph("g")
    graph.add_output(graph.adopt_input(Value(name)))
    assert to_text(graph) == f"graph g({text}) {{\n  return {text}\n}}\n"
    assert names(from_text(to_text(graph)).outputs) == [name]


def test_special_names_are_quoted():
    graph = Graph("a b", opsets={"ai.onnx": 1, "a=b": 2})
    graph.append(Node("X", attributes={"a-b": 1, "c": 2}, name="n"))
    text = to_text(graph)
    assert text == (
        'graph "a b"() opsets {ai.onnx = 1, "a=b" = 2} {\n  () = X() {"a-b" = 1, c = 2} name "n"\n  return\n}\n'
    )
    assert_same(graph, from_text(text), with_notes=False)


def test_whitespace_and_comments_are_ignored():
    text = '#!\n graph # a (\n g ( % x:int8 [ ] ) {#}\n%y,_=X(%x,_){a=1}name"n"\r\nreturn%y\t}  # end'
    assert to_text(from_text(text)) == 'graph g(%x: int8[]) {\n  %y = X(%x) {a = 1} name "n"\n  return %y\n}\n'


def test_integer_literals_are_accepted_in_float_tensors():
    assert attribute_of("float32[3](1, -2, 3e0)").numpy().tolist() == [1, -2, 3]
    assert attribute_of("complex(1, 2.0)") == 1 + 2j


# --- tensors that are not written out ---------------------------------------------------------------------------------


def test_large_tensors_are_omitted_without_being_read():
    class Unread(Storage):
        def numpy(self):
            raise RuntimeError

        def chunks(self, limit=0):
            raise RuntimeError

    text = text_of(Unread(DType.FLOAT32, (64, 3, 7, 7)))
    assert text == "float32[64, 3, 7, 7](...)"
    with pytest.raises(DiagnosticError, match="IO0106"):
        attribute_of(text)


def test_inline_option_limits_written_elements():
    storage = storage_of(np.arange(INLINE + 1))
    assert "..." in text_of(storage)
    assert "..." not in text_of(storage_of(np.arange(INLINE)))
    assert "..." in text_of(storage, inline=INLINE)
    assert "..." not in text_of(storage, inline=INLINE + 1)
    assert "..." not in text_of(storage, inline=None)
    assert "..." not in text_of(storage_of([]), inline=0)


def test_large_tensors_are_written_as_references():
    large, small = storage_of(np.arange(20)), storage_of([1])
    assert text_of((small, large), refer=lambda storage: f"w{storage.count}") == "(int64[1](1), int64[20]@w20)"
    assert text_of(large, refer=lambda storage: "a b") == 'int64[20]@"a b"'
    graph = from_text('graph g() { constant %c = int64[20]@"a b" return }', table={"a b": large})
    (constant,) = graph.constants
    assert (constant.storage, constant.fact) == (large, TensorFact.of(large))


# --- symbols ----------------------------------------------------------------------------------------------------------


def facts_of(*facts: Fact) -> str:
    graph = Graph("g")
    for number, fact in enumerate(facts):
        graph.adopt_input(Value(f"x{number}", fact))
    text = to_text(graph)
    assert [value.fact for value in from_text(text).inputs] == list(facts)
    return text[len("graph g(") : -len(") {\n  return\n}\n")]


def shape(*dims: Dim) -> TensorFact:
    return TensorFact(DType.INT8, dims)


def test_bounds_are_stated_once():
    n, h = Symbol("N", 1, 64), Symbol("H", None, 5)
    assert facts_of(shape(n, h), shape(h, n + 1)) == "%x0: int8[N, H] where N in 1..64 and H in ..5, %x1: int8[H, N+1]"


def test_bounds_are_stated_again_when_they_change():
    assert facts_of(shape(Symbol("N")), shape(Symbol("N", 0)), shape(Symbol("N", None)), shape(Symbol("N"))) == (
        "%x0: int8[N], %x1: int8[N] where N in 0.., %x2: int8[N] where N in .., %x3: int8[N] where N in 1.."
    )


def test_symbol_bounds_follow_the_fact():
    fact = SequenceFact(TensorFact(DType.INT64, (1,), (Symbol("N", -3, -1),)))
    assert facts_of(fact) == "%x0: sequence(int64[1]{N}) where N in -3..-1"


def test_bounds_hold_in_bodies_and_after_them():
    text = """graph g(%x: int8[N] where N in 1..) {
      () = If() {a = graph b(%y: int8[N]) { return }, f = int8[N] where N in 2..}
      %z: int8[N] = X()
      return
    }"""
    graph = from_text(text)
    (body,) = first(graph).bodies()
    assert body.inputs[0].fact == shape(Symbol("N", 1))
    assert list(graph)[1].output.fact == first(graph).attributes["f"] == shape(Symbol("N", 2))


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        pytest.param(Symbol("batch size"), '"batch size"', id="blank"),
        pytest.param(Symbol("-1"), '"-1"', id="a number as a name"),
        pytest.param(Symbol("7"), "`7`", id="another number as a name"),
        pytest.param((Symbol("H") + 1) // 2, "(H+1)//2", id="expression"),
        pytest.param(Symbol("a,b") * 2, '"2*`a,b`"', id="quoted in an expression"),
        pytest.param(Symbol("\0open"), '"\\u0000open"', id="not seen"),
    ],
)
def test_dims_look_like_this(dim, text):
    assert facts_of(shape(dim, 3)) == f"%x0: int8[{text}, 3]"


def test_symbols_of_any_name_have_bounds():
    assert facts_of(shape(Symbol("batch size", 1)), shape(Symbol("opaque", 2)), shape(Symbol("in", 3))) == (
        '%x0: int8["batch size"], %x1: int8[opaque] where opaque in 2.., %x2: int8[in] where in in 3..'
    )


def test_the_definition_of_a_symbol_is_written_once():
    graph = from_text("""graph g(%x: int8[H], %y: int8[T2, 2*T2] where T2 in 3.. and T2 = H+2, %z: int8[T2]) {
      return %x
    }""")
    assert graph.extents.definitions == {"T2": Symbol("H") + 2}
    text = to_text(graph)
    assert text.count("T2 = H+2") == text.count("T2 in 3..") == 1
    assert to_text(from_text(text)) == text
    assert from_text(text).extents.definitions == graph.extents.definitions


NAMES = st.one_of(
    st.sampled_from(["N", "a b", "(a", "a)", "a`", "`)", "(", ")(", "7", "x+1"]), st.text("aN()`+ ", min_size=1)
)
OPERATIONS = st.sampled_from([lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a // 2 - b, maximum, ceil_div])


@given(st.lists(NAMES, min_size=2, max_size=4, unique=True), st.data())
@example(["T", "N"], None)
@example(["T", "a)"], None)
@example(["T", "(a"], None)
@settings(max_examples=times(20))
def test_symbol_definitions_are_read_at_every_position(symbols, data):
    """Before a comma, before the bracket that ends the inputs, and in a tuple: names and expressions of any signs."""
    others = [Symbol(name) for name in symbols[1:]]
    dim = (others[0] + 1) // 2
    for other in others if data is not None else ():
        dim = data.draw(OPERATIONS)(dim, other)
    for defined in (dim, others[0], 7):
        text = to_text(_with_definition(symbols[0], defined))
        read = from_text(text)
        assert read.extents.definitions == {symbols[0]: defined}
        assert to_text(read) == text


def _with_definition(name: str, dim: Dim) -> Graph:
    """A graph whose only input has an extent that stands for `dim`, and so has an attribute of its node."""
    graph = Graph("g")
    fact = TensorFact(DType.INT8, (graph.extents.define(name, dim),))
    x = graph.adopt_input(Value("x", fact))
    graph.append(Node("X", [x], [Value("y", fact)], {"f": (fact, 1)}))
    return graph


def test_defined_symbols_are_declared_without_use():
    text = """graph g(%x: int8[H, K] where T2 = H+2 and K = 3*T2 and V = 7) {
      return %x
    }"""
    extents = from_text(text).extents
    h, t = Symbol("H"), Symbol("T2")
    assert extents.definitions == {"T2": h + 2, "K": t * 3, "V": 7}
    assert extents.declared == {name: Symbol(name) for name in ("T2", "K", "V")}
    assert [extents.evaluate(Symbol(name), {"H": 5}) for name in ("T2", "K", "V")] == [7, 21, 7]


def test_two_bounds_at_once_cannot_be_written():
    with pytest.raises(ValueError, match="the symbol 'N' has the bounds"):
        facts_of(shape(Symbol("N"), Symbol("N", 2)))


# --- depth ------------------------------------------------------------------------------------------------------------


def test_deeply_nested_tuples_round_trip():
    nested = ()
    for _ in range(5_000):
        nested = (nested, 1)
    text = text_of(nested)
    assert text == "(" * 5_001 + ")" + ", 1)" * 5_000
    assert_same_attribute(attribute_of(text), nested, {})


def test_deeply_nested_facts_round_trip():
    text = "sequence(" * 5_000 + "int8[]" + ")" * 5_000
    assert text_of(attribute_of(text)) == text


def nested_bodies(count: int) -> Graph:
    graph = outermost = Graph("g0")
    for number in range(1, count):
        body = Graph(f"g{number}")
        graph.append(Node("If", attributes={"b": body}))
        graph = body
    return outermost


def test_nested_bodies_round_trip_up_to_the_limit():
    graph = nested_bodies(MOST_NESTED)
    assert_same(from_text(to_text(graph)), graph, with_notes=False)
    with pytest.raises(DiagnosticError, match=f"IO0102.*graphs are nested more than {MOST_NESTED}"):
        from_text(to_text(nested_bodies(MOST_NESTED + 1)))
    assert to_text(nested_bodies(2_000)).count("graph") == 2_000


# --- what is no graph -------------------------------------------------------------------------------------------------


def found_in(text: str, **options: Any) -> list[tuple[str, int | None, int | None, str]]:
    with pytest.raises(DiagnosticError) as caught:
        from_text(text, **options)
    return [(d.code, d.span and d.span.line, d.span and d.span.column, d.message) for d in caught.value.diagnostics]


@every(
    ("text", "column", "message"),
    [
        pytest.param("", 1, "expected 'graph', found the end of the file", id="nothing"),
        pytest.param("grap g", 1, "expected 'graph', found \"grap\"", id="no graph"),
        pytest.param("graphs", 1, "expected 'graph', found \"graphs\"", id="a longer word"),
        pytest.param("graph (", 7, 'expected the name of the graph, found "("', id="no name"),
        pytest.param("graph g {", 9, "expected '(', found \"{\"", id="no inputs"),
        pytest.param("graph g(x)", 9, 'expected a value, found "x"', id="no value"),
        pytest.param("graph g(%)", 10, 'expected the name of a value, found ")"', id="no name of a value"),
        pytest.param("graph g(%a %b)", 12, "expected ',' or ')', found \"%\"", id="no comma"),
        pytest.param("graph g(%a,)", 12, 'expected a value, found ")"', id="comma at the end"),
        pytest.param("graph g(%a: x)", 13, 'expected a fact, found "x"', id="no fact"),
        pytest.param("graph g(%a: int8)", 17, "expected '[', found \")\"", id="no shape"),
        pytest.param("graph g(%a: int8[=])", 18, 'expected a dim, found "="', id="no dim"),
        pytest.param("graph g(%a: int8[...)", 21, "expected ']', found \")\"", id="open shape"),
        pytest.param("graph g(%a: int8[N] where N 1..)", 29, "expected 'in', found \"1\"", id="no in"),
        pytest.param("graph g(%a: int8[N] where N in 1)", 33, "expected '..', found \")\"", id="no range"),
        pytest.param("graph g(%a: int8[N] where N in N..)", 32, 'expected an integer, found "N"', id="no bound"),
        pytest.param("graph g(%a: int8[N] where %)", 27, 'expected a symbol, found "%"', id="no symbol"),
        pytest.param("graph g() opsets {a 1}", 21, "expected '=', found \"1\"", id="no version"),
        pytest.param("graph g() opsets {a = b}", 23, 'expected an integer, found "b"', id="version is no integer"),
        pytest.param("graph g() opsets {a = 1 b = 2}", 25, "expected ',' or '}', found \"b\"", id="no comma in opsets"),
        pytest.param("graph g() return", 11, "expected '{', found \"return\"", id="no brace"),
        pytest.param("graph g() { constant w", 22, 'expected a value, found "w"', id="no constant"),
        pytest.param("graph g() { constant %w = 5", 27, 'expected an element type, found "5"', id="no tensor"),
        pytest.param("graph g() { constant %w = int8[] 5", 34, "expected '(', found \"5\"", id="no elements"),
        pytest.param("graph g() { constant %w = int8[1](x)", 35, 'expected an element, found "x"', id="no element"),
        pytest.param(
            "graph g() { constant %w = int8[](1)",
            36,
            "expected a result or 'return', found the end of the file",
            id="no return",
        ),
        pytest.param("graph g() { x = Y() return }", 13, "expected a result or 'return', found \"x\"", id="no result"),
        pytest.param(
            "graph g() { = Y() return }", 13, "expected a result or 'return', found \"=\"", id="nothing computed"
        ),
        pytest.param("graph g() { (%x) = Y()", 14, "expected ')', found \"%\"", id="results in brackets"),
        pytest.param("graph g() { %x Y()", 16, "expected ',' or '=', found \"Y\"", id="no equals sign"),
        pytest.param("graph g() { %x = ()", 18, 'expected an operator, found "("', id="no operator"),
        pytest.param("graph g() { %x = nnef:()", 23, 'expected an operator, found "("', id="no operator in a dialect"),
        pytest.param("graph g() { %x = Y {", 20, "expected '(', found \"{\"", id="no operands"),
        pytest.param("graph g() { %x = Y(1)", 20, "expected a value or '_', found \"1\"", id="no operand"),
        pytest.param("graph g() { %x = Y() {1 = }", 27, 'expected an attribute, found "}"', id="no attribute"),
        pytest.param(
            "graph g() { %x = Y() {a = 5x}", 27, 'expected an attribute, found "5x"', id="letters behind a number"
        ),
        pytest.param(
            "graph g() { %x = Y() {a = (1 2)}", 30, "expected ',' or ')', found \"2\"", id="no comma in a tuple"
        ),
        pytest.param(
            "graph g() { %x = Y() {a = 1 b}", 29, "expected ',' or '}', found \"b\"", id="no comma between attributes"
        ),
        pytest.param("graph g() { %x = Y() {a = complex(x)}", 35, 'expected a number, found "x"', id="no number"),
        pytest.param(
            "graph g() { %x = Y() {a = complex(1)}",
            37,
            'expected a complex number with two parts before this, found "}"',
            id="half a complex number",
        ),
        pytest.param(
            'graph g() { %x = Y() {a = "b', 27, 'expected a string that ends on its line, found "\\""', id="open string"
        ),
        pytest.param(
            "graph g() { %x = Y() name n", 27, 'expected a string that ends on its line, found "n"', id="bare name"
        ),
        pytest.param("graph g() { return %x y }", 23, "expected ',', found \"y\"", id="no comma between outputs"),
        pytest.param("graph g() { return x }", 20, 'expected a value, found "x"', id="no output"),
        pytest.param("graph g() { return } graph", 22, 'expected the end of the file, found "graph"', id="two graphs"),
        pytest.param('graph g() { %x = Y() {a = "b\\q"', 29, "\\q is not an escape sequence", id="unknown escape"),
        pytest.param('graph g() { %x = Y() {a = "b\\u12"', 29, "\\u is not an escape sequence", id="short escape"),
        pytest.param(
            'graph g() { %x = Y() {a = "\\U00110000"', 28, "\\U00110000 is not an escape sequence", id="no code point"
        ),
        pytest.param('graph g() { %x = Y() {a = b"é€"', 27, '"€" is not a byte', id="no byte"),
    ],
)
def test_unexpected_token_is_reported(text, column, message):
    assert found_in(text)[-1] == ("IO0101", 1, column, message)


@every(
    ("text", "code", "column", "message"),
    [
        pytest.param("() = Y(%z)", "IO0103", 8, "undefined value %z", id="unknown value"),
        pytest.param("%y = Y(%y)", "IO0103", 8, "undefined value %y", id="reads itself"),
        pytest.param("%y = Y() {b = graph b() { return %y }}", "IO0103", 34, "undefined value %y", id="in its body"),
        pytest.param(
            "() = Y() {b = graph b(%y) { return }} () = Y(%y)", "IO0103", 46, "undefined value %y", id="of a body"
        ),
        pytest.param("%y = Y() %y = Y()", "IO0104", 10, "duplicate value %y", id="twice"),
        pytest.param('%"a b", %"a b" = Y()', "IO0104", 9, 'duplicate value %"a b"', id="twice at once"),
        pytest.param(
            "%y = Y() () = Y() {b = graph b(%y) { return }}", "IO0104", 32, "duplicate value %y", id="in a body"
        ),
        pytest.param("() = Y() {a = 1, a = 2}", "IO0109", 18, "duplicate definition of a", id="attribute twice"),
        pytest.param("() = Y() {a = int8[2](1)}", "IO0105", 22, "int8[2] has 2 elements, got 1", id="too few elements"),
        pytest.param(
            "() = Y() {a = complex64[2](1, 2)}", "IO0105", 27, "complex64[2] has 4 elements, got 2", id="half of them"
        ),
        pytest.param("() = Y() {a = int8[1](128)}", "IO0105", 22, "128 is out of the range of int8", id="too large"),
        pytest.param("() = Y() {a = int2[1](-3)}", "IO0105", 22, "-3 is out of the range of int2", id="too small"),
        pytest.param("() = Y() {a = uint64[1](-1)}", "IO0105", 24, "-1 is out of the range of uint64", id="negative"),
        pytest.param(
            "() = Y() {a = uint4[1](16)}", "IO0105", 23, "16 is out of the range of uint4", id="too large for its bits"
        ),
        pytest.param(
            "() = Y() {a = int8[1](1.0)}", "IO0105", 22, "1.0 is not an element of int8", id="a float for an integer"
        ),
        pytest.param(
            "() = Y() {a = int8[1](true)}", "IO0105", 22, "True is not an element of int8", id="a bool for an integer"
        ),
        pytest.param(
            "() = Y() {a = bool[1](1)}", "IO0105", 22, "1 is not an element of bool", id="an integer for a bool"
        ),
        pytest.param(
            "() = Y() {a = float32[1](true)}",
            "IO0105",
            25,
            "True is not an element of float32",
            id="a bool for a float",
        ),
        pytest.param(
            '() = Y() {a = float32[1]("a")}', "IO0105", 25, "a is not an element of float32", id="a text for a float"
        ),
        pytest.param(
            "() = Y() {a = int8[1](nan:0x1)}",
            "IO0105",
            22,
            "nan:0x1 is not an element of int8",
            id="bits for an integer",
        ),
        pytest.param(
            "() = Y() {a = string[1](1)}", "IO0105", 24, "1 is not an element of string", id="a number for a text"
        ),
        pytest.param(
            "() = Y() {a = float16[1](1e5)}",
            "IO0105",
            25,
            "100000.0 is out of the range of float16",
            id="too large a float",
        ),
        pytest.param(
            "() = Y() {a = float8_e4m3fn[1](inf)}",
            "IO0105",
            31,
            "inf is out of the range of float8_e4m3fn",
            id="no infinity",
        ),
        pytest.param(
            "() = Y() {a = float4_e2m1fn[1](nan)}",
            "IO0105",
            31,
            "nan is out of the range of float4_e2m1fn",
            id="no nan",
        ),
        pytest.param(
            "() = Y() {a = float16[1](nan:0x17e00)}",
            "IO0105",
            25,
            "nan:0x17e00 has more bits than float16",
            id="too many bits",
        ),
        pytest.param(
            f"() = Y() {{a = float64[1]({'9' * 400})}}",
            "IO0105",
            25,
            "an integer is out of the range of float64",
            id="no float is so large",
        ),
        pytest.param("() = Y() {a = nan:0x1}", "IO0105", 15, "nan:0x1 is not a float64 NaN", id="no nan of 64 bits"),
        pytest.param(
            "() = Y() {a = int8[N](1)}", "IO0105", 22, "a tensor constant has a symbolic shape", id="symbolic shape"
        ),
        pytest.param(
            "() = Y() {a = int8[-1](1)}", "IO0105", 23, "a tensor constant has a symbolic shape", id="negative length"
        ),
        pytest.param(
            "() = Y() {a = int8[...](1)}", "IO0105", 24, "a tensor constant has a symbolic shape", id="no shape"
        ),
        pytest.param(
            "() = Y() {a = int8[17](...)}",
            "IO0106",
            23,
            "the elements of this tensor were omitted from the text",
            id="left out",
        ),
        pytest.param(
            "() = Y() {a = int8[1]@w}",
            "IO0107",
            22,
            "the weight w is nothing, expected int8[1]",
            id="no such tensor",
        ),
        pytest.param(
            "() = Y() {a = int8[1]@there}",
            "IO0107",
            22,
            "the weight there is int8[2], expected int8[1]",
            id="another shape",
        ),
        pytest.param(
            "() = Y() {a = int4[2]@there}",
            "IO0107",
            22,
            "the weight there is int8[2], expected int4[2]",
            id="another type",
        ),
        pytest.param(
            "() = Y() {a = int8[N] where N in 2..1}",
            "IO0108",
            29,
            "the bounds 2 and 1 of 'N' contain no integer",
            id="no number between",
        ),
        pytest.param('() = Y() {a = int8[N] where "" in ..}', "IO0108", 29, "a symbol needs a name", id="no name"),
        pytest.param('() = Y() {a = int8[""]}', "IO0108", 23, "empty dim", id="no dim"),
        pytest.param(
            f"() = Y() {{a = {'1' * (MOST_DIGITS + 1)}}}",
            "IO0102",
            15,
            f"an integer has {MOST_DIGITS + 1} digits, the limit is {MOST_DIGITS}",
            id="too long an integer",
        ),
    ],
)
def test_invalid_graph_is_reported(text, code, column, message):
    found = found_in(f"graph g() {{\n{text}\nreturn }}", table={"there": storage_of([1, 2], DType.INT8)})
    assert found == [(code, 2, column, message)]


def test_duplicate_input_is_reported():
    assert found_in("graph g(%x, %x) { return %x }") == [("IO0104", 1, 13, "duplicate value %x")]


def test_shapes_above_numpy_limits_are_reported():
    for text in ("int8[0, 99999999999999999999]()", f"int8[{', '.join('1' * 70)}](1)"):
        ((code, *_),) = found_in(f"graph g() {{ () = X() {{a = {text}}} return }}")
        assert code == "IO0105"


def test_findings_before_a_syntax_error_are_reported():
    text = textwrap.dedent("""\
        graph g(%x, %x) opsets {a = 1, a = 2} {
          %y = X(%p)
          %y = X(%q) {a = int8[1](300)}
          oops
    """)
    assert [(code, line) for code, line, *_ in found_in(text)] == [
        ("IO0104", 1), ("IO0109", 1), ("IO0103", 2), ("IO0103", 3), ("IO0105", 3), ("IO0104", 3), ("IO0101", 4),
    ]  # fmt: skip


def test_finding_span_covers_the_token():
    source = Source("model.txt", "graph g() {\n  () = Y(%abc   # why\n )return }")
    with pytest.raises(DiagnosticError) as caught:
        from_text(source)
    (finding,) = caught.value.diagnostics
    assert finding.span is not None
    assert str(finding.span) == "model.txt:2:10"
    assert source.text is not None
    assert source.text[finding.span.start : finding.span.stop] == "%abc"
    assert finding.help is not None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("graph g() oops  # why", "oops", id="word"),
        pytest.param('graph g() {() = X() {a = "b\\q"', "\\q", id="escape"),
        pytest.param(f"graph g() {{() = X() {{a = {'1' * (MOST_DIGITS + 1)} ", "1" * (MOST_DIGITS + 1), id="digits"),
    ],
)
def test_last_finding_spans_the_unexpected_token(text, place):
    with pytest.raises(DiagnosticError) as caught:
        from_text(text)
    span = caught.value.diagnostics[-1].span
    assert span is not None
    assert text[span.start : span.stop] == place


def test_integers_up_to_most_digits_are_read():
    assert attribute_of("1" * MOST_DIGITS) == int("1" * MOST_DIGITS)


def test_a_binary_source_is_no_text():
    with pytest.raises(DiagnosticError, match="found the end of the file"):
        from_text(Source("model.bin"))


def test_attributes_of_other_kinds_are_not_written():
    with pytest.raises(TypeError, match="int64 is not an attribute type"):
        text_of(np.int64(1))


PIECES = st.sampled_from([*'(){}[],:=%@?.#"\\ \n', *EXAMPLE.split(), "graph", "return", "nan:0x", "1e999", "-", "..."])


@given(st.integers(0, len(EXAMPLE)), st.integers(0, 5), st.lists(PIECES, max_size=2))
def test_a_damaged_text_is_read_or_refused(place, length, pieces):
    text = EXAMPLE[:place] + "".join(pieces) + EXAMPLE[place + length :]
    try:
        graph = from_text(text)
    except DiagnosticError:
        return
    verify(graph)
    assert to_text(from_text(to_text(graph))) == to_text(graph)


@given(dtypes)
def test_default_nan_is_written_as_nan(dtype):
    if dtype.is_floating and dtype is not DType.FLOAT4E2M1:
        (text,) = (text_of(ArrayStorage(np.array([np.nan]).astype(dtype.numpy), dtype)),)
        assert text == f"{dtype}[1](nan)"


def test_nans_of_64_bits_are_attributes():
    for bits in (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001):
        (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
        assert_same_attribute(attribute_of(text_of(number)), number, {})


def test_parsed_node_has_its_source_span():
    graph = from_text("graph g(%x: float32[2]) {\n  %y = nnef.relu(%x)\n  return %y\n}")
    origin = graph.first_node.origin
    assert (origin.line, origin.column) == (2, 8)
    assert origin.source.text[origin.start : origin.stop] == "nnef.relu"
