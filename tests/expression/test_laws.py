"""What holds for every expression: the tiers agree, and printing undoes reading."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.evaluate import evaluate_rpn, evaluate_tree
from graphport.expression.expression import Expression
from graphport.expression.functions import ARITIES, NUMPY_FUNCTIONS
from graphport.expression.parse import parse
from graphport.expression.rpn import rpn, tree_of
from graphport.expression.syntax import List, literal, operand_count, reference
from tests.expression.random_expressions import EVERY_LITERAL, operands, trees

HAS_COMPILER = importlib.util.find_spec("llvmlite") is not None
TIERS = ["numpy", pytest.param("fused", marks=pytest.mark.skipif(not HAS_COMPILER, reason="llvmlite is not installed"))]
EVERY_LEAF = st.one_of(st.integers(0, 10**6).map(reference), EVERY_LITERAL.map(literal))
EVERY_TREE = st.recursive(
    trees(leaves=EVERY_LEAF, unary=tuple(n for n, a in ARITIES.items() if a == (1,)), binary=("add", "size")),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: List("[", arguments=tuple(items))),
    max_leaves=4,
)


def values_of(function, *arguments):
    """The result as an array, or the code of the error."""
    try:
        return np.asarray(function(*arguments))
    except DiagnosticError as error:
        return error.diagnostics[0].code


def assert_same(one, other, **tolerance):
    if isinstance(one, str) or isinstance(other, str):
        assert str(one) == str(other)
        return
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(one, other, equal_nan=True, **tolerance)


@given(EVERY_TREE)
def test_reading_undoes_printing(tree):
    assert parse(str(tree), ARITIES).tree == tree


@given(EVERY_TREE)
def test_parsing_the_printed_tree_is_idempotent(tree):
    text = str(tree)
    assert str(parse(f" {text} ", ARITIES).tree) == text


@given(EVERY_TREE)
def test_tree_is_restored_from_rpn(tree):
    assert tree_of(rpn(tree, ARITIES)) == tree


@given(st.text(alphabet="add(mul)@01,[]. -ej#neg\t", max_size=24), st.booleans())
def test_any_text_is_parsed_or_rejected_with_a_span(text, lenient):
    try:
        parsed = parse(text, ARITIES, lenient=lenient)
    except DiagnosticError as error:
        for finding in error.diagnostics:
            assert finding.code.startswith("EXPR")
            assert finding.span is not None
            assert finding.span.column is not None
            assert 1 <= finding.span.column <= len(text) + 1
    else:
        assert parse(str(parsed.tree), ARITIES).tree == parsed.tree
        for token in parsed.tokens:
            assert "".join(text[token.start : token.end].split()) == token.text or lenient


@given(trees(), operands(dtypes=("float32", "float64", "int32", "bool", "float16")))
def test_tree_and_rpn_evaluate_equally(tree, arrays):
    expression = Expression(str(tree))
    by_tree = values_of(evaluate_tree, expression.text, expression.tree, NUMPY_FUNCTIONS, arrays)
    by_steps = values_of(evaluate_rpn, expression.text, expression.rpn, NUMPY_FUNCTIONS, arrays)
    assert_same(by_tree, by_steps, rtol=0)


@pytest.mark.parametrize("tier", TIERS)
@given(tree=trees(), arrays=operands(dtypes=("float32", "float64", "int32", "bool", "float16")))
def test_every_tier_matches_stepwise_evaluation(tier, tree, arrays):
    expression = Expression(str(tree), tier=tier)
    stepwise = values_of(evaluate_rpn, expression.text, expression.rpn, NUMPY_FUNCTIONS, arrays)
    result = values_of(expression, *arrays[: expression.operand_count])
    if isinstance(stepwise, str) or isinstance(result, str):
        assert str(stepwise) == str(result)
        return
    assert (result.dtype, result.shape) == (stepwise.dtype, stepwise.shape)


SMOOTH: dict[str, Any] = {
    "unary": ("abs", "neg", "tanh", "erf", "square", "sqrt"),
    "binary": ("add", "sub", "mul", "maximum", "min"),
}


@pytest.mark.parametrize("tier", TIERS)
@given(tree=trees(**SMOOTH), arrays=operands())
def test_every_tier_has_the_same_numbers(tier, tree, arrays):
    expression = Expression(str(tree), tier=tier)
    assume(expression.operand_count)
    wide = [array.astype(np.float64) for array in arrays]
    given_operands = wide[: expression.operand_count]
    stepwise = evaluate_rpn(expression.text, expression.rpn, NUMPY_FUNCTIONS, wide, DType.FLOAT64)
    result = expression(*given_operands)
    np.testing.assert_allclose(result, np.asarray(stepwise), rtol=1e-12, atol=1e-12, equal_nan=True)


ARITHMETIC: dict[str, Any] = {
    "unary": ("abs", "neg", "square", "sqrt", "sign"),
    "binary": ("add", "sub", "mul", "div", "maximum"),
}


@pytest.mark.parametrize("tier", TIERS)
@given(tree=trees(**ARITHMETIC), arrays=operands())
def test_arithmetic_is_the_same_to_the_last_bit(tier, tree, arrays):
    expression = Expression(str(tree), tier=tier)
    stepwise = values_of(evaluate_rpn, expression.text, expression.rpn, NUMPY_FUNCTIONS, arrays)
    assert_same(values_of(expression, *arrays[: expression.operand_count]), stepwise, rtol=0)


INTEGRAL: dict[str, Any] = {
    "leaves": st.one_of(st.integers(0, 2).map(reference), st.integers(-9, 9).map(literal)),
    "unary": ("abs", "neg", "square", "sign", "floor"),
    "binary": ("add", "sub", "mul", "floor_divide", "remainder", "fmod", "max", "and", "or", "xor", "lshift", "rshift"),
}


@pytest.mark.parametrize("tier", TIERS)
@given(tree=trees(**INTEGRAL), arrays=operands(dtypes=("int8", "int16", "int32", "int64", "uint8")))
def test_integers_are_the_same_to_the_last_bit(tier, tree, arrays):
    expression = Expression(str(tree), tier=tier)
    stepwise = values_of(evaluate_rpn, expression.text, expression.rpn, NUMPY_FUNCTIONS, arrays)
    assert_same(values_of(expression, *arrays[: expression.operand_count]), stepwise, rtol=0)


@pytest.mark.parametrize("tier", TIERS)
@given(tree=trees(**ARITHMETIC), arrays=operands(), data=st.data())
def test_out_may_alias_an_operand(tier, tree, arrays, data):
    expression = Expression(str(tree), tier=tier)
    count = expression.operand_count
    fresh = values_of(expression, *arrays[:count])
    if isinstance(fresh, str) or not count:
        return
    position = data.draw(st.integers(0, count - 1))
    assume(arrays[position].shape == fresh.shape and arrays[position].dtype == fresh.dtype)
    result = expression(*arrays[:count], out=arrays[position])
    assert result is arrays[position]
    assert_same(result, fresh, rtol=0)


@given(trees(), st.integers(1, 4))
def test_a_batch_is_computed_item_by_item(tree, batch_size):
    expression = Expression(str(tree))
    count = operand_count(tree)
    assume(count)
    inputs = [np.full((2,), number + 1.5, np.float32) for number in range(count * batch_size)]
    items = [values_of(expression, *inputs[item::batch_size]) for item in range(batch_size)]
    fault = next((item for item in items if isinstance(item, str)), None)
    if fault is not None:
        with pytest.raises(DiagnosticError) as raised:
            expression.forward(inputs, batch_size)
        assert raised.value.diagnostics[0].code == fault
        return
    for output, item in zip(expression.forward(inputs, batch_size), items, strict=True):
        assert_same(np.asarray(output), item, rtol=0)
