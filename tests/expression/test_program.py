from __future__ import annotations

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.program import Apply, Argument, Builder, Constant, Load, Program, Result, span_of

SINGLE = Argument(DType.FLOAT32, (2, 3))


def result_of(text, *arguments):
    expression = Expression(text)
    return Builder(expression.text, NUMPY_FUNCTIONS, arguments, DType.FLOAT32).build(expression.rpn)


def program_of(text, *arguments):
    program = result_of(text, *arguments).value
    assert isinstance(program, Program)
    return program


def test_conversions_are_spelled_out():
    program = program_of("add(@0,@1)", SINGLE, Argument(DType.INT32, (3,)))
    assert program.values == (
        Load(1, DType.INT32),
        Apply("copy", (0,), DType.FLOAT32),
        Load(0, DType.FLOAT32),
        Apply("add", (2, 1), DType.FLOAT32),
    )


def test_program_is_independent_of_its_constants():
    two, three = program_of("mul(@0,2)", SINGLE), program_of("mul(@0,3.5)", SINGLE)
    assert (
        two.values
        == three.values
        == (
            Load(0, DType.FLOAT32),
            Constant(0, DType.FLOAT32),
            Apply("mul", (0, 1), DType.FLOAT32),
        )
    )
    assert (two.constants, three.constants) == ((2,), (3.5,))


def test_zero_constants_of_different_sign_or_type_are_distinct():
    program = program_of("add(mul(@0,0.0),add(mul(@0,-0.0),mul(@0,0)))", SINGLE)
    assert sorted(map(repr, program.constants)) == ["-0.0", "0", "0.0"]


def test_scalar_arithmetic_is_folded():
    assert program_of("mul(@0,add(1,mul(2,3)))", SINGLE).constants == (7,)
    assert program_of("mul(@0,@1)", SINGLE, Argument(DType.INT64, (), 4)).constants == (4,)
    assert result_of("add(size(@0,1),1)", SINGLE) == Result(4)


def test_list_result_contains_each_item():
    items = result_of("[size(@0,0),[None,neg(@0)]]", SINGLE).value
    assert isinstance(items, tuple)
    size, inner = items
    assert size == Result(2)
    assert isinstance(inner.value, tuple)
    assert inner.value[0] == Result(None)
    assert isinstance(inner.value[1].value, Program)


def test_program_value_has_its_source_step():
    expression = Expression("add(@0,neg(@1))")
    arguments = [SINGLE, SINGLE]
    program = Builder(expression.text, NUMPY_FUNCTIONS, arguments, DType.FLOAT32).build(expression.rpn).value
    assert isinstance(program, Program)
    number = next(n for n, value in enumerate(program.values) if isinstance(value, Apply) and value.kernel == "neg")
    span = span_of(expression.text, expression.rpn, program, number)
    assert (span.start, span.stop) == (7, 14)


def test_expensive_argument_is_computed_first():
    program = program_of("add(neg(@0),add(exp(@0),mul(sqrt(@0),@0)))", SINGLE)
    order = [value.kernel for value in program.values if isinstance(value, Apply)]
    assert order.index("exp") < order.index("neg")


@pytest.mark.parametrize("dtype", [DType.STRING, DType.FLOAT8E4M3FN, DType.INT4])
def test_types_without_arithmetic_are_refused(dtype):
    with pytest.raises(DiagnosticError, match="unsupported element type"):
        result_of("neg(@0)", Argument(dtype, (2,)))
