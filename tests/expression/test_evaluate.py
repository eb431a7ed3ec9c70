from __future__ import annotations

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.expression.evaluate import evaluate_rpn, evaluate_tree
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS, function_table
from tests.expression.arrays import f32, i32


def by_steps(text, *operands, functions=NUMPY_FUNCTIONS):
    expression = Expression(text)
    return evaluate_rpn(expression.text, expression.rpn, functions, operands)


def by_tree(text, *operands, functions=NUMPY_FUNCTIONS):
    expression = Expression(text)
    return evaluate_tree(expression.text, expression.tree, functions, operands)


@pytest.mark.parametrize("evaluate", [by_steps, by_tree])
class TestEvaluation:
    def test_operands_are_passed_in_order(self, evaluate):
        assert evaluate("sub(@0,div(@1,@0))", f32([2]), f32([8])).tolist() == [-2]

    def test_results_of_every_kind(self, evaluate):
        result = evaluate("[size(@0),size(@0,1),None,torch.float,add(1,2),neg(@0)]", f32([[1, 2]]))
        assert result[:5] == [[1, 2], 2, None, "torch.float", 3]
        assert result[5].tolist() == [[-1, -2]]

    def test_functions_are_taken_from_the_table(self, evaluate):
        functions = function_table({"add": lambda x, y: x * 100 + y})
        assert evaluate("add(@0,@1)", f32([1]), f32([2]), functions=functions).tolist() == [102]

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("neg(and(@0,@0))", "EXPR0203"),
            ("neg(int(@0))", "EXPR0203"),
            ("neg(size(@0,1.5))", "EXPR0203"),
            ("neg(remainder(3,0))", "EXPR0204"),
        ],
    )
    def test_error_span_covers_the_function(self, evaluate, text, code):
        with pytest.raises(DiagnosticError) as caught:
            evaluate(text, np.ones((2, 3), np.float32), np.ones(2, np.float32))
        finding = caught.value.diagnostics[0]
        assert finding.code == code
        assert finding.span is not None
        assert (finding.span.start, finding.span.stop) == (4, len(text) - 1)

    @pytest.mark.parametrize(
        ("text", "code", "operand"),
        [
            ("neg(add(@0,@1))", "EXPR0202", "@1"),
            ("neg(mul(@0,add(@0,neg(@1))))", "EXPR0202", "neg(@1)"),
            ("neg(add(sub(@1,2),exp(@0)))", "EXPR0202", "exp(@0)"),
            ("neg(size(@0,7))", "EXPR0205", "7"),
            ("neg(size(@1,add(0,1)))", "EXPR0205", "add(0,1)"),
        ],
    )
    def test_shape_error_span_covers_the_operand(self, evaluate, text, code, operand):
        with pytest.raises(DiagnosticError) as caught:
            evaluate(text, np.ones((2, 3), np.float32), np.ones(2, np.float32))
        finding = caught.value.diagnostics[0]
        assert finding.code == code
        assert finding.span is not None
        assert text[finding.span.start : finding.span.stop] == operand

    def test_division_of_integers_by_zero(self, evaluate):
        with pytest.raises(DiagnosticError):
            evaluate("floor_divide(@0,@1)", i32([1]), i32([0]))

    def test_depth_does_not_matter(self, evaluate):
        assert evaluate("neg(" * 10_000 + "@0" + ")" * 10_000, f32([1])).tolist() == [1]
