from __future__ import annotations

import math

import pytest

from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import call, drawing, literal, operand_count, postorder, preorder, reference


def read(text):
    return parse(text, ARITIES).tree


def test_tree_equality_ignores_spans():
    assert read("add(@0,1)") == read(" add( @0 , 1 ) ")
    assert hash(read("add(@0,1)")) == hash(read("add(@0 ,1)"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("add(@0,@1)", "add(@1,@0)", id="order"),
        pytest.param("1", "1.0", id="an integer is no float"),
        pytest.param("True", "1", id="a truth value is no integer"),
        pytest.param("0.0", "-0.0", id="the zeros differ"),
        pytest.param("[1,[2]]", "[[1],2]", id="nesting"),
        pytest.param("size(@0)", "size(@0,0)", id="count of arguments"),
        pytest.param("torch.float", "None", id="constants"),
    ],
)
def test_trees_differ(one, other):
    assert read(one) != read(other)


def test_numbers_are_equal_by_value():
    assert read("0.5") == read("5e-1")
    assert read("nan") == read("nan.0")
    assert read("@0") != "@0"


@pytest.mark.parametrize("value", [0, -3, 0.1, 1e-7, -0.0, math.inf, 1 - 2j, complex(0, math.inf), True, None])
def test_a_literal_is_spelled_so_that_it_is_read_back(value):
    assert read(str(literal(value))) == literal(value)


def test_constructed_tree_equals_parsed_tree():
    assert call("add", reference(0), call("mul", reference(1), literal(2.5))) == read("add(@0,mul(@1,2.5))")
    assert str(call("size", reference(3), literal(0))) == "size(@3,0)"


def test_walks():
    tree = read("add(mul(@0,@1),[@2])")
    assert [node.text for node in postorder(tree)] == ["@0", "@1", "mul", "@2", "[", "add"]
    assert [(depth, node.text) for depth, node in preorder(tree)][:3] == [(0, "add"), (1, "mul"), (2, "@0")]
    assert drawing(tree) == "add\n  mul\n    @0\n    @1\n  []\n    @2"


@pytest.mark.parametrize(("text", "count"), [("1", 0), ("@0", 1), ("add(@4,@1)", 5)])
def test_operands_are_counted_by_the_largest_index(text, count):
    assert operand_count(read(text)) == count
