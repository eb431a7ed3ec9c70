"""Random syntax trees of both editions."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from graphport.formats.nnef.container.lexer import string_literal
from graphport.formats.nnef.container.syntax import (
    Argument,
    Array,
    ArrayType,
    Assignment,
    Binary,
    Builtin,
    Call,
    Comprehension,
    Document,
    Edition,
    Expression,
    Extension,
    Fragment,
    Generic,
    Graph,
    Logical,
    Loop,
    Name,
    Number,
    Parameter,
    Range,
    Result,
    Select,
    String,
    Subscript,
    TensorType,
    Tuple,
    TupleType,
    TypeName,
    Unary,
    Version,
)

BINARY = ["in", "&&", "||", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "^"]
EDITIONS = st.sampled_from([*Edition])

names = st.sampled_from(["a", "b", "conv1", "x_2", "_y", "Input"]).map(Name)
numbers = st.sampled_from(["0", "1", "42", "0.5", "1e-3", "2.50", "9223372036854775807"]).map(Number)
strings = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=5).map(
    lambda value: String(string_literal(value))
)
logicals = st.booleans().map(Logical)
leaves = st.one_of(names, numbers, strings, logicals)


def tuples_of(items, least=1, most=3):
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def primitives(edition: Edition) -> list[str]:
    return ["extent" if edition is Edition.PROVISIONAL else "integer", "scalar", "logical", "string"]


def calls(items, edition):
    arguments = st.builds(Argument, st.none() | st.sampled_from(["k", "axis"]), items)
    generics = st.none() | st.sampled_from([*primitives(edition), "?"]) if edition is Edition.FINAL else st.none()
    return st.builds(Call, st.sampled_from(["relu", "f"]), tuples_of(arguments), generics)


@cache  # building a strategy takes longer than drawing from it
def expressions(edition: Edition, leaf=leaves):
    def larger(items):
        loops = st.builds(Loop, names, items)
        most = 2 if edition is Edition.FINAL else 1
        operators = BINARY if edition is Edition.FINAL else BINARY[1:]
        return st.one_of(
            st.builds(Array, tuples_of(items, 0)),
            st.builds(Tuple, tuples_of(items, 2)),
            calls(items, edition),
            st.builds(Builtin, st.sampled_from(["shape_of", "length_of", *primitives(edition)]), items),
            st.builds(Unary, st.sampled_from("+-!"), items),
            st.builds(Binary, st.sampled_from(operators), items, items),
            st.builds(Select, items, items, items),
            st.builds(Subscript, items, items),
            st.builds(Range, items, st.none() | items, st.none() | items),
            st.builds(Comprehension, tuples_of(loops, 1, most), st.none() | items, items),
        )

    return st.recursive(leaf, larger, max_leaves=12)


def literals(edition: Edition):
    signed = numbers
    if edition is Edition.FINAL:
        signed = numbers | st.builds(Unary, st.just("-"), numbers)
    return st.recursive(
        st.one_of(signed, strings, logicals),
        lambda items: st.builds(Array, tuples_of(items, 0)) | st.builds(Tuple, tuples_of(items, 2)),
        max_leaves=4,
    )


def types(edition: Edition):
    if edition is Edition.FINAL:
        items = st.none() | st.sampled_from([*primitives(edition), "?"])
        base = st.builds(TensorType, items) | st.builds(TypeName, st.sampled_from([*primitives(edition), "?"]))
    else:
        base = st.builds(TypeName, st.sampled_from([*primitives(edition), "tensor"]))
    return st.recursive(
        base, lambda items: st.builds(ArrayType, items) | st.builds(TupleType, tuples_of(items, 2)), max_leaves=3
    )


targets = st.recursive(
    names,
    lambda items: st.builds(Array, tuples_of(items, 0)) | st.builds(Tuple, tuples_of(items, 2)),
    max_leaves=4,
)


def documents(flat=False):
    return EDITIONS.flatmap(lambda edition: documents_of(edition, flat))


@cache
def documents_of(edition, flat):
    value = expressions(edition)
    if flat:
        number = numbers | st.builds(Unary, st.just("-"), numbers) if edition is Edition.FINAL else numbers
        leaf = st.one_of(names, number, strings, logicals)
        item = leaf | st.builds(Tuple, tuples_of(leaf, 2))
        value = calls(leaf | st.builds(Array, tuples_of(item, 0)), edition)
    body = tuples_of(st.builds(Assignment, targets, value))
    parameter = st.builds(Parameter, names, types(edition), st.none() | literals(edition))
    generic = st.none()
    extensions = st.just(())
    fragment_body = body
    if edition is Edition.FINAL:
        generic = st.none() | st.builds(Generic, st.none() | st.sampled_from(primitives(edition)))
        extensions = tuples_of(st.builds(Extension, tuples_of(names)), 0, 2)
        fragment_body = body | st.none()
    fragments = st.builds(
        Fragment,
        names,
        generic,
        tuples_of(parameter),
        tuples_of(st.builds(Result, names, types(edition))),
        fragment_body,
    )
    graph = st.builds(Graph, names, tuples_of(names), tuples_of(names), body)
    return st.builds(
        Document,
        st.just(edition),
        st.just(Version("1.0")),
        extensions,
        st.just(()) if flat else tuples_of(fragments, 0, 2),
        graph,
    )


def depth(node: Expression) -> int:
    """How many operators stand within one another on the left."""
    found = 0
    while isinstance(node, Binary):
        node, found = node.left, found + 1
    return found
