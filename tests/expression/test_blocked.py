from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.expression.blocked import CACHE, BlockedProgram, blocks
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.program import Argument, Builder, Program
from tests.every import every
from tests.expression.arrays import f32


def program_of(text, count):
    expression = Expression(text)
    arguments = [Argument(DType.FLOAT32, (2,))] * count
    program = Builder(expression.text, NUMPY_FUNCTIONS, arguments, DType.FLOAT32).build(expression.rpn).value
    assert isinstance(program, Program)
    return program


@every("shape", [(10,), (3, 5), (7, 1, 3), (2, 3, 4, 5), (1,), (100, 2), (2, 100)])
@every("limit", [1, 4, 7, 1000])
def test_blocks_tile_a_shape(shape, limit):
    seen = np.zeros(shape, int)
    for place in blocks(shape, limit):
        assert seen[place].size <= max(limit, 1)
        seen[place] += 1
    assert (seen == 1).all()


def test_blocks_are_in_memory_order():
    numbers = np.arange(60).reshape(3, 4, 5)
    firsts = [numbers[place].flat[0] for place in blocks(numbers.shape, 7)]
    assert all(one < other for one, other in pairwise(firsts))


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        pytest.param("add(@0,@1)", 1, id="one operation"),
        pytest.param("neg(neg(neg(neg(@0))))", 1, id="a chain stays in one register"),
        pytest.param("add(neg(@0),exp(@1))", 2, id="two results at a time"),
        pytest.param("add(exp(@0),add(exp(@0),add(sqrt(@0),neg(@0))))", 3, id="the heavier argument comes first"),
    ],
)
def test_registers_are_used_again(text, registers):
    assert BlockedProgram(program_of(text, 2), NUMPY_FUNCTIONS).register_count <= registers


def test_deep_sum_uses_few_registers():
    text = "neg(@0)"
    for number in range(200):
        text = f"add({'exp' if number % 2 else 'sqrt'}(mul(@0,{number}.5)),{text})"
    assert BlockedProgram(program_of(text, 1), NUMPY_FUNCTIONS).register_count <= 3


def test_equal_parts_are_computed_once():
    assert program_of("mul(add(@0,@1),add(@0,@1))", 2).operation_count == 2


def test_balanced_tree_uses_registers_proportional_to_its_height():
    def tree(height, number):
        if height == 0:
            return f"exp(mul(@0,{number}.5))"
        return f"add({tree(height - 1, 2 * number)},{tree(height - 1, 2 * number + 1)})"

    assert BlockedProgram(program_of(tree(8, 1), 1), NUMPY_FUNCTIONS).register_count <= 10


@pytest.mark.parametrize("text", ["add(exp(@0),mul(neg(@1),@0))", "div(1.0,add(1.0,exp(neg(@0))))"])
def test_no_temporary_grows_with_the_operands(text):
    x = np.ones(4_000_000, np.float32)
    e = Expression(text, tier="numpy")
    operands = [x] * e.operand_count
    e(*(operand[:10] for operand in operands))
    out = np.empty_like(x)
    tracemalloc.start()
    try:
        e(*operands, out=out)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * CACHE < x.nbytes


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param(((300_000,), (300_000,)), id="plain"),
        pytest.param(((3, 300, 400), (400,)), id="last axis"),
        pytest.param(((3, 300, 400), (3, 1, 1)), id="first axis"),
        pytest.param(((1, 300, 400), (3, 1, 400)), id="both are repeated"),
        pytest.param(((3, 300, 400), ()), id="one number"),
    ],
)
def test_blocks_see_the_right_part_of_every_operand(shapes):
    draws = np.random.default_rng(0)
    a, b = (np.asarray(draws.standard_normal(shape), np.float32) for shape in shapes)
    result = Expression("sub(mul(@0,@1),add(neg(@1),@0))", tier="numpy")(a, b)
    np.testing.assert_array_equal(result, a * b - (-b + a))


def test_operands_may_have_any_strides():
    a = np.random.default_rng(0).standard_normal((500, 600)).astype(np.float32)
    result = Expression("add(@0,mul(@1,2))", tier="numpy")(a.T, a.T[::-1])
    np.testing.assert_array_equal(result, a.T + a.T[::-1] * 2)


def test_single_operand_of_any_size_is_copied():
    big = np.arange(200_000, dtype=np.float32)
    np.testing.assert_array_equal(Expression("@0", tier="numpy")(big), big)
    assert Expression("@0")(f32([])).shape == (0,)


def test_direct_call_accepts_or_declines_arrays():
    program = BlockedProgram(program_of("add(@0,mul(@1,@2))", 3), NUMPY_FUNCTIONS)
    call = program.direct([np.dtype(np.float32)] * 3)
    assert call is not None
    a, b, c, out = (np.full((3, 4), n, np.float32) for n in (1, 2, 3, 0))
    assert call.call(a, b, c, out) is out
    np.testing.assert_array_equal(out, np.full((3, 4), 7))
    frozen = out.copy()
    frozen.flags.writeable = False
    line = np.zeros(20, np.float32)
    for arrays in (
        (a, b, c),
        (a, b, c[:2], out),
        (a.astype(np.float64), b, c, out),
        (a, b, c, frozen),
        (line[:12].reshape(3, 4), b, c, line[4:16].reshape(3, 4)),
    ):
        assert call.call(*arrays) is None
    assert call.call(a, b, c, a) is a
    np.testing.assert_array_equal(a, np.full((3, 4), 7))


def test_programs_that_may_fail_are_not_called_directly():
    integers = program_of("floor_divide(@0,@1)", 2)
    assert BlockedProgram(integers, NUMPY_FUNCTIONS).direct([np.dtype(np.float32)] * 2) is None
