from __future__ import annotations

import pytest

from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.syntax import Binary, Edition, Expression, Unary
from tests import deep
from tests.formats.nnef.documents import final, provisional, tree


def value(text: str, edition=Edition.FINAL) -> Expression:
    document = tree(final(f"y = {text};") if edition is Edition.FINAL else provisional(f"y = {text}"), edition)
    assert document.graph is not None
    return document.graph.body[-1].value


def grouped(node: Expression) -> str:
    """The expression with every operator in parentheses."""
    match node:
        case Binary():
            return f"({grouped(node.left)} {node.operator} {grouped(node.right)})"
        case Unary():
            return f"({node.operator}{grouped(node.operand)})"
        case _:
            return to_text(node)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        pytest.param("a + b * c", "(a + (b * c))", id="times before plus"),
        pytest.param("a * b ^ c", "(a * (b ^ c))", id="power before times"),
        pytest.param("a - b - c", "((a - b) - c)", id="minus from the left"),
        pytest.param("a / b / c", "((a / b) / c)", id="division from the left"),
        pytest.param("a ^ b ^ c", "((a ^ b) ^ c)", id="power from the left"),
        pytest.param("a < b + c", "(a < (b + c))", id="plus before comparison"),
        pytest.param("a < b && c > d", "((a < b) && (c > d))", id="comparison before and"),
        pytest.param("a && b || c", "((a && b) || c)", id="and and or alike, from the left"),
        pytest.param("a || b && c", "((a || b) && c)", id="or and and alike, from the left"),
        pytest.param("a && b in c", "((a && b) in c)", id="in after and"),
        pytest.param("a in b + c", "(a in (b + c))", id="plus before in"),
        pytest.param("-a + b", "((-a) + b)", id="a minus is its operand's only"),
        pytest.param("-a * b", "((-a) * b)", id="a minus before times"),
        pytest.param("-a ^ b", "((-a) ^ b)", id="a minus before power"),
        pytest.param("!a || b", "((!a) || b)", id="a not is its operand's only"),
        pytest.param("a - -b", "(a - (-b))", id="minus minus"),
        pytest.param("- - a", "(-(-a))", id="a minus of a minus"),
        pytest.param("-a[0]", "(-a[0])", id="a subscript before a minus"),
        pytest.param("(a + b) * c", "((a + b) * c)", id="parentheses first"),
    ],
)
def test_operators_bind_as_the_table_states(text, groups):
    assert grouped(value(text)) == groups


def test_if_else_binds_loosest_and_nests_to_the_right():
    assert value("a + b if c && d else e if f else g") == value("(a + b) if (c && d) else (e if f else g)")
    assert value("a if b if c else d else e") == value("a if (b if c else d) else e")


def test_the_if_of_a_comprehension_is_not_that_of_a_selection():
    one = value("[for i in a if b yield c]")
    assert to_text(one) == "[for i in a if b yield c]"
    assert value("[for i in (a if b else c) yield i]") != one
    other = value("[i for i in a if b]", Edition.PROVISIONAL)
    assert to_text(other, Edition.PROVISIONAL) == "[i for i in a if b]"


def test_parallel_iterators_are_separated_by_commas():
    assert to_text(value("[for i in a, j in b, k in [1, 2] if c yield (i, j, k)]")).count(" in ") == 3


@pytest.mark.parametrize(
    "text", ["a[0]", "a[0][1]", "a[:]", "a[1:]", "a[:2]", "a[1:2][0]", "f(x)[1]", "'abc'[0]", "[1, 2][0]"]
)
def test_subscripts_and_ranges_follow_any_operand(text):
    assert to_text(value(text)) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("f<scalar>(x)", "Call", id="a type in angle brackets is an argument"),
        pytest.param("f<?>(x)", "Call", id="and so is a question mark"),
        pytest.param("f < scalar(x)", "Binary", id="a cast on the right is compared"),
        pytest.param("f < g > (x)", "Binary", id="names are compared"),
    ],
)
def test_generic_calls_are_reported_from_comparisons(text, kind):
    assert type(value(text)).__name__.removeprefix("Flat") == kind


def test_the_provisional_edition_compares_where_the_final_one_calls():
    assert type(value("f < scalar(x)", Edition.PROVISIONAL)).__name__ == "Binary"


def test_deep_nesting_takes_memory_not_the_stack():
    levels = deep.LEVELS
    assert value("(" * levels + "x" + ")" * levels) == value("x")
    assert to_text(value("-" * levels + "x")) == "-" * levels + "x"
    chain = value("x" + " + x" * 5 * levels)
    assert to_text(chain).count("+") == 5 * levels
    assert to_text(value("f(" * levels + "x" + ")" * levels)).count("f(") == levels
    assert to_text(value("x if true else " * levels + "x")).count("else") == levels
