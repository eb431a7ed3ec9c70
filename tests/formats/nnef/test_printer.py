from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.syntax import Binary, Edition, Name, Number, Select, Subscript, Tuple, Unary
from tests import deep
from tests.draws import times
from tests.formats.nnef.documents import tree
from tests.formats.nnef.trees import EDITIONS, documents, expressions


@given(documents())
@settings(max_examples=times(50))
def test_printed_text_parses_to_the_same_tree(document):
    again = parse(Source("again", to_text(document)), document.edition)
    assert again.diagnostics == []
    assert again.document == document


@given(EDITIONS.flatmap(lambda edition: st.tuples(st.just(edition), expressions(edition))))
def test_parentheses_stand_where_the_tree_needs_them(drawn):
    edition, expression = drawn
    end = ";" if edition is Edition.FINAL else ""
    text = f"version 1.0{end}\ngraph g( x ) -> ( y ) {{ y = {to_text(expression, edition)}{end} }}"
    graph = tree(text, edition).graph
    assert graph is not None
    assert graph.body[0].value == expression


def test_parentheses_stand_nowhere_else():
    a, b, c = Name("a"), Name("b"), Name("c")
    assert to_text(Binary("+", a, Binary("*", b, c))) == "a + b * c"
    assert to_text(Binary("*", Binary("+", a, b), c)) == "(a + b) * c"
    assert to_text(Binary("-", a, Binary("-", b, c))) == "a - (b - c)"
    assert to_text(Unary("-", Subscript(a, Number("0")))) == "-a[0]"
    assert to_text(Subscript(Unary("-", a), Number("0"))) == "(-a)[0]"
    assert to_text(Select(a, b, Select(a, b, c))) == "b if a else b if a else c"
    assert to_text(Select(a, Select(a, b, c), c)) == "(b if a else c) if a else c"


def test_a_document_prints_as_people_write_it():
    text = (
        "version 1.0;\n"
        "extension KHR_enable_fragment_definitions;\n"
        "extension KHR_enable_operator_expressions;\n\n"
        "fragment f<? = scalar>( x: tensor<?>, n: integer[] = [1, -2] ) -> ( y: tensor<?>, z: tensor<?>[] )\n"
        "{\n"
        "    y, z = g<?>(x, n = n[1:])[0];\n"
        "    [a, b] = [for i in n, j in n if i > 1 yield (i, j)];\n"
        "}\n\n"
        "fragment g( x: tensor<> ) -> ( y: tensor<scalar> );\n\n"
        "graph main( x ) -> ( y )\n"
        "{\n"
        "    x = external(shape = [1, 2]);\n"
        "}\n"
    )
    assert to_text(tree(text)) == text


def test_a_provisional_document_prints_without_semicolons():
    text = "version 1.0\n\nfragment f( x: tensor ) -> ( y: tensor[] )\n{\n    y = [x for i in [1] if true]\n}\n\n"
    text += "graph main( x ) -> ( y )\n{\n    x = external(shape = [1, 2])\n}\n"
    assert to_text(tree(text)) == text


def test_deep_trees_print():
    expression = Name("a")
    for _ in range(2 * deep.LEVELS):
        expression = Binary("+", expression, Unary("-", Name("b")))
    assert to_text(expression) == "a" + " + -b" * 2 * deep.LEVELS
    assert len(to_text(Tuple((expression, expression)))) > 4 * deep.LEVELS
