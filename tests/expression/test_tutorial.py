"""The tutorial on KuiperInfer's expression layer, section by section: its examples, its checks, its walk-throughs."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.syntax import drawing
from graphport.expression.tokens import TokenKind
from tests import deep
from tests.expression.arrays import f32, f64

SEVEN = "add(add(mul(@0,@1),mul(@2,add(add(add(@0,@2),@3),@4))),@5)"


def refused(text, **options):
    with pytest.raises(DiagnosticError) as caught:
        Expression(text, **options)
    return caught.value.diagnostics[-1]


def place_of(finding):
    assert finding.span is not None
    return finding.span


def code_and_column(text):
    finding = refused(text)
    return finding.code, place_of(finding).column


def image(value, shape=(3, 224, 224)):
    return np.full(shape, value, np.float32)


class TestWhatAnExpressionIs:
    def test_output_is_the_sum_times_the_third_input(self):
        one, two, three = (f32([[1, 2], [3, 4]]) * factor for factor in (1, 10, 100))
        np.testing.assert_array_equal(Expression("mul(add(@0,@1),@2)")(one, two, three), (one + two) * three)

    def test_operands_are_the_input_tensors(self):
        e = Expression("add(@0,mul(@1,@2))")
        assert e.operand_count == 3
        np.testing.assert_array_equal(e(image(1.0), image(2.0), image(3.0)), image(7.0))

    def test_the_complex_example_is_read_and_computed(self):
        e = Expression(SEVEN)
        assert e.operand_count == 6
        a, b, c, d, f, g = (image(value, (2, 3)) for value in (1, 2, 3, 4, 5, 6))
        np.testing.assert_array_equal(e(a, b, c, d, f, g), a * b + c * (a + c + d + f) + g)
        assert str(e) == SEVEN


class TestLexicalAnalysis:
    def test_the_text_is_cut_into_tokens(self):
        tokens = Expression("add(@0,mul(@1,@2))").tokens
        assert [token.text for token in tokens] == ["add", "(", "@0", ",", "mul", "(", "@1", ",", "@2", ")", ")"]

    def test_token_has_kind_start_and_end(self):
        add, bracket, operand, comma, *_ = Expression("add(@0,mul(@1,@2))").tokens
        assert (add.kind, add.start, add.end) == (TokenKind.NAME, 0, 3)
        assert (bracket.kind, bracket.start, bracket.end) == (TokenKind.LEFT_PARENTHESIS, 3, 4)
        assert (operand.kind, operand.start, operand.end) == (TokenKind.REFERENCE, 4, 6)
        assert (comma.kind, comma.start, comma.end) == (TokenKind.COMMA, 6, 7)

    @pytest.mark.parametrize("text", ["", " ", " \t\n "])
    def test_an_empty_statement_is_refused(self, text):
        assert code_and_column(text) == ("EXPR0001", 1)

    def test_blanks_and_tabs_are_omitted(self):
        assert Expression(" add ( @0 ,\tmul( @1 , @2 ) ) ").tree == Expression("add(@0,mul(@1,@2))").tree

    @pytest.mark.parametrize("text", ["a(@0,@1)", "ad(@0,@1)", "axd(@0,@1)", "adx(@0,@1)"])
    def test_unknown_name_starting_with_a_is_rejected(self, text):
        assert code_and_column(text) == ("EXPR0105", 1)

    @pytest.mark.parametrize("text", ["m(@0,@1)", "mu(@0,@1)", "mxl(@0,@1)", "muk(@0,@1)"])
    def test_unknown_name_starting_with_m_is_rejected(self, text):
        assert code_and_column(text) == ("EXPR0105", 1)

    @pytest.mark.parametrize("text", ["add(@,@1)", "add(@a,@1)", "add(@-1,@1)"])
    def test_an_operand_without_a_number_is_refused(self, text):
        assert code_and_column(text) == ("EXPR0004", 5)

    def test_operand_index_may_have_several_digits(self):
        tokens = Expression("add(@12,@3)").tokens
        assert (tokens[2].text, tokens[2].end) == ("@12", 7)

    @pytest.mark.parametrize("character", ["#", "é", "{", "&"])
    def test_another_character_is_refused(self, character):
        assert code_and_column(f"add(@0,{character})") == ("EXPR0002", 8)


class TestSyntaxAnalysis:
    def test_the_tree_has_the_operation_above_its_operands(self):
        tree = Expression("add(mul(@0,@1),@2)").tree
        assert tree.text == "add"
        left, right = tree.arguments
        assert (left.text, [leaf.text for leaf in left.arguments]) == ("mul", ["@0", "@1"])
        assert right.text == "@2"

    def test_the_walk_through_of_add(self):
        assert drawing(Expression("add(@0,@1)").tree).splitlines() == ["add", "  @0", "  @1"]

    def test_the_walk_through_of_add_mul(self):
        text = "add(mul(@0,@1),@2)"
        assert [token.text for token in Expression(text).tokens] == [
            "add",
            "(",
            "mul",
            "(",
            "@0",
            ",",
            "@1",
            ")",
            ",",
            "@2",
            ")",
        ]
        assert drawing(Expression(text).tree).splitlines() == ["add", "  mul", "    @0", "    @1", "  @2"]

    def test_single_operand_is_an_expression(self):
        assert Expression("@0").tree.text == "@0"

    @pytest.mark.parametrize(
        ("text", "code", "column"),
        [
            pytest.param("(@0,@1)", "EXPR0102", 1, id="begins with a bracket"),
            pytest.param(",@0", "EXPR0101", 1, id="begins with a comma"),
            pytest.param(")", "EXPR0101", 1, id="begins with a closing bracket"),
            pytest.param("add", "EXPR0102", 4, id="ends after the operation"),
            pytest.param("add@0,@1)", "EXPR0102", 4, id="no left bracket"),
            pytest.param("add,@0,@1", "EXPR0102", 4, id="a comma for the left bracket"),
            pytest.param("add(", "EXPR0103", 5, id="ends after the bracket"),
            pytest.param("add(,@1)", "EXPR0101", 5, id="no left operand"),
            pytest.param("add((@0,@1)", "EXPR0102", 5, id="a bracket for the left operand"),
            pytest.param("add(@0", "EXPR0103", 7, id="ends after the left operand"),
            pytest.param("add(@0@1)", "EXPR0102", 7, id="no comma"),
            pytest.param("add(@0(@1)", "EXPR0102", 7, id="a bracket for the comma"),
            pytest.param("add(@0,", "EXPR0103", 8, id="ends after the comma"),
            pytest.param("add(@0,)", "EXPR0101", 8, id="no right operand"),
            pytest.param("add(@0,@1", "EXPR0103", 10, id="ends before the right bracket"),
            pytest.param("add(@0,@1(", "EXPR0102", 10, id="a left for the right bracket"),
            pytest.param("add(mul(@0,@1),@2", "EXPR0103", 18, id="the outer bracket is open"),
            pytest.param("add(@0,@1))", "EXPR0103", 11, id="one bracket too many"),
            pytest.param("add(@0,@1)@2", "EXPR0104", 11, id="something follows"),
        ],
    )
    def test_unexpected_token_is_rejected_at_its_column(self, text, code, column):
        assert code_and_column(text) == (code, column)

    def test_every_truncation_is_refused_at_the_end(self):
        for end in range(1, len(SEVEN)):
            stop = place_of(refused(SEVEN[:end])).stop
            assert stop is not None
            assert stop >= end - len("add")

    def test_the_depth_does_not_matter(self):
        depth = deep.LEVELS
        e = Expression("add(@0," * depth + "@0" + ")" * depth)
        assert e(f64([1.0])) == depth + 1


class TestReversePolish:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("add(@0,@1)", "@0 @1 add"),
            ("add(@0,mul(@1,@2))", "@0 @1 @2 mul add"),
            ("add(mul(@0,@1),@2)", "@0 @1 mul @2 add"),
            ("mul(add(@0,@1),@2)", "@0 @1 add @2 mul"),
            (SEVEN, "@0 @1 mul @2 @0 @2 add @3 add @4 add mul add @5 add"),
        ],
    )
    def test_rpn_lists_operands_before_functions(self, text, expected):
        assert " ".join(map(str, Expression(text).rpn)) == expected


class TestTheExpressionLayer:
    def test_an_expression_is_needed(self):
        with pytest.raises(DiagnosticError):
            Expression("")

    def test_functions_are_taken_from_the_table(self):
        only_add = {"add": NUMPY_FUNCTIONS["add"]}
        assert Expression("add(@0,@0)", only_add)(2) == 4
        assert refused("mul(@0,@0)", functions=only_add).code == "EXPR0105"


class TestInputLayout:
    def test_forward_inputs_are_grouped_by_operand(self):
        inputs = [image(1.0) for _ in range(4)] + [image(2.0) for _ in range(4)]
        outputs = Expression("add(@0,@1)").forward(inputs, 4)
        assert len(outputs) == 4
        for output in outputs:
            np.testing.assert_array_equal(output, image(3.0))

    def test_forward_pairs_items_by_batch_index(self):
        inputs = [f32([value]) for value in (1, 2, 3, 4, 10, 20, 30, 40)]
        assert [float(output[0]) for output in Expression("sub(@1,@0)").forward(inputs, 4)] == [9, 18, 27, 36]


class TestTheComputation:
    def test_the_first_example(self):
        inputs = [image(value, (2, 2)) for value in (1, 2, 3, 4)]
        first, second = Expression("add(@0,@1)").forward(inputs, 2)
        np.testing.assert_array_equal(first, image(4, (2, 2)))
        np.testing.assert_array_equal(second, image(6, (2, 2)))

    def test_the_second_example_with_three_inputs(self):
        inputs = [image(value, (2, 2)) for value in (1, 2, 3, 4, 5, 6)]
        first, second = Expression("mul(add(@0,@1),@2)").forward(inputs, 2)
        np.testing.assert_array_equal(first, image((1 + 3) * 5, (2, 2)))
        np.testing.assert_array_equal(second, image((2 + 4) * 6, (2, 2)))

    def test_three_operands_in_a_batch_of_four(self):
        inputs = [image(operand * 10 + item, (3, 8, 8)) for operand in range(3) for item in range(4)]
        for item, output in enumerate(Expression("add(@0,mul(@1,@2))").forward(inputs, 4)):
            np.testing.assert_array_equal(output, image(item + (10 + item) * (20 + item), (3, 8, 8)))


class TestOperands:
    def refused(self, text, inputs, batch_size, **options):
        with pytest.raises(DiagnosticError) as caught:
            Expression(text).forward(inputs, batch_size, **options)
        return caught.value.diagnostics[0].code

    def test_empty_inputs_are_refused(self):
        assert self.refused("add(@0,@1)", [], 4) == "EXPR0208"

    @pytest.mark.parametrize("batch_size", [0, -1])
    def test_forward_rejects_an_empty_batch(self, batch_size):
        assert self.refused("add(@0,@1)", [image(1.0)] * 2, batch_size) == "EXPR0208"

    @pytest.mark.parametrize("count", [1, 3, 5])
    def test_a_count_that_is_no_multiple_of_the_batch_is_refused(self, count):
        assert self.refused("add(@0,@1)", [image(1.0, (2,))] * count, 2) == "EXPR0208"

    def test_unused_operands_count(self):
        inputs = [f32([value]) for value in (1, 2, 3, 4, 5, 6)]
        assert [float(o[0]) for o in Expression("add(@0,@2)").forward(inputs, 2)] == [6, 8]
        assert self.refused("add(@0,@2)", inputs[:4], 2) == "EXPR0208"

    def test_forward_overwrites_one_output_per_item(self):
        inputs = [f32([value]) for value in (1, 2, 3, 4)]
        out = [f32([99]), f32([99])]
        outputs = Expression("add(@0,@1)").forward(inputs, 2, out=out)
        assert outputs[0] is out[0]
        assert [float(o[0]) for o in out] == [4, 6]
        assert self.refused("add(@0,@1)", inputs, 2, out=out[:1]) == "EXPR0208"

    def test_an_output_of_another_shape_is_refused(self):
        assert self.refused("add(@0,@1)", [image(1.0, (2,))] * 2, 1, out=[image(0.0, (3,))]) == "EXPR0207"

    def test_inputs_that_do_not_fit_are_refused(self):
        assert self.refused("add(@0,@1)", [image(1.0, (2,)), image(1.0, (3,))], 1) == "EXPR0202"


class TestOperators:
    def test_first_operand_is_the_left_one(self):
        a, b = f32([12.0]), f32([4.0])
        assert Expression("sub(@0,@1)")(a, b) == 8
        assert Expression("div(@0,@1)")(a, b) == 3
        assert Expression("sub(@1,sub(@0,@1))")(a, b) == -4
        assert Expression("pow(@1,@0)")(a, b) == 4.0**12

    def test_an_operator_with_too_few_operands_is_refused(self):
        assert code_and_column("add(@0)") == ("EXPR0106", 1)
        assert code_and_column("mul(@0,add(@1))") == ("EXPR0106", 8)
