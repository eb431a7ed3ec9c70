from __future__ import annotations

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import List, Literal, call, reference
from tests import deep


def findings_of(text, **options):
    with pytest.raises(DiagnosticError) as caught:
        parse(text, ARITIES, **options)
    return caught.value.diagnostics


def test_nodes_have_spans():
    tree = parse(" add( @0 ,mul(@1,2.5) )", ARITIES).tree
    left, right = tree.arguments
    assert (tree.start, tree.end) == (1, 23)
    assert (left.start, left.end) == (6, 8)
    assert (right.start, right.end) == (10, 21)


def test_empty_and_nested_lists_are_parsed():
    tree = parse("[[],[1,[2]],None]", ARITIES).tree
    assert isinstance(tree, List)
    assert [len(item.arguments) for item in tree.arguments] == [0, 2, 0]
    assert str(tree) == "[[],[1,[2]],None]"


def test_torch_name_is_a_literal_unless_called():
    tree = parse("[torch.float,torch.float(@0)]", ARITIES).tree
    word, cast = tree.arguments
    assert isinstance(word, Literal)
    assert word.value == "torch.float"
    assert cast == call("torch.float", reference(0))


@pytest.mark.parametrize(
    ("text", "code", "column", "said"),
    [
        pytest.param("foo(@0)", "EXPR0105", 1, "unknown function 'foo'", id="unknown function"),
        pytest.param("torch.half(@0)", "EXPR0105", 1, "unknown function 'torch.half'", id="unknown cast"),
        pytest.param("foo", "EXPR0105", 1, "'foo'", id="unknown word"),
        pytest.param("neg(@0,@1)", "EXPR0106", 1, "takes 1 argument, got 2", id="one too many"),
        pytest.param("size(@0,1,2)", "EXPR0106", 1, "takes 1 or 2 arguments, got 3", id="more than either"),
        pytest.param("a dd(@0,@1)", "EXPR0005", 1, "space inside 'add'", id="a blank inside a name"),
        pytest.param("[1,2", "EXPR0103", 5, "missing ']'", id="a list without end"),
        pytest.param("[1,2)", "EXPR0103", 5, "expected ',' or ']' in the list, found ')'", id="the wrong end"),
        pytest.param("add(@0 @1)", "EXPR0102", 8, "expected ',' or ')' in add(, found '@1'", id="no comma"),
        pytest.param("[1,]", "EXPR0101", 4, "before ']'", id="a list that ends with a comma"),
        pytest.param("add()", "EXPR0101", 5, "in add( before ')'", id="no arguments"),
    ],
)
def test_syntax_error_reports_column_and_expectation(text, code, column, said):
    finding = findings_of(text)[-1]
    assert finding.code == code
    assert finding.span is not None
    assert finding.span.column == column
    assert said in finding.message


def test_all_unknown_functions_and_wrong_arities_are_reported():
    findings = findings_of("foo(neg(@0,@1),bar(@0),add(@0)")
    assert [finding.code for finding in findings] == ["EXPR0105", "EXPR0106", "EXPR0105", "EXPR0106", "EXPR0103"]


def test_similar_function_is_suggested():
    assert findings_of("sqr(@0)")[0].help == "similar: sqrt, rsqrt, square"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("expm1,@0", "expm1(@0)"),
        ("sub(log1p,@0),@1", "sub(log1p(@0),@1)"),
        ("add(@0,,mul(@1,2))", "add(@0,mul(@1,2))"),
        ("add(@0,@1", "add(@0,@1)"),
        ("add(@0,@1))", "add(@0,@1)"),
        ("add@0@1", "add(@0,@1)"),
        ("add(@0 @1)", "add(@0,@1)"),
        ("[size(@0,0),,size(@0)]", "[size(@0,0),size(@0)]"),
        ("add(size,@0,1),2", "add(size(@0,1),2)"),
        ("[1,[2,3],4,]", "[1,[2,3],4]"),
    ],
)
def test_lenient_parse_accepts_prefix_notation_with_a_warning(text, canonical):
    parsed = parse(text, ARITIES, lenient=True)
    assert str(parsed.tree) == canonical
    (warning,) = parsed.findings
    assert (warning.code, warning.is_error) == ("EXPR0107", False)
    assert warning.help == f"write {canonical}"
    assert findings_of(text)


@pytest.mark.parametrize("text", ["add(@0", "add,@0", "@0 , @1", "neg(@0,@1)", "foo,@0", "[1,2", "1]", "add(@0,@1),@2"])
def test_lenient_parse_rejects_invalid_prefix_notation(text):
    strict = [finding.message for finding in findings_of(text)]
    assert [finding.message for finding in findings_of(text, lenient=True)] == strict


def test_lenient_parse_of_valid_text_has_no_findings():
    assert parse("add(@0,mul(@1,@2))", ARITIES, lenient=True).findings == ()


def test_a_long_text_in_a_warning_is_cut():
    parsed = parse("add(" * 500 + "@0" + ",@1" * 500, ARITIES, lenient=True)
    assert len(parsed.findings[0].message) < 300


@pytest.mark.parametrize(
    ("head", "core", "tail"),
    [
        pytest.param("neg(", "@0", ")", id="unary"),
        pytest.param("add(", "@0", ",1)", id="left"),
        pytest.param("add(1,", "@0", ")", id="right"),
        pytest.param("[", "@0", "]", id="lists"),
    ],
)
def test_depth_does_not_matter(head, core, tail):
    depth = deep.LEVELS
    text = head * depth + core + tail * depth
    parsed = parse(text, ARITIES)
    assert str(parsed.tree) == text
    assert parsed.tree == parse(text, ARITIES).tree
    assert hash(parsed.tree) == hash(parse(text, ARITIES).tree)


@pytest.mark.parametrize("text", ["neg(" * 20_000, "[" * 20_000, "add(@0," * 20_000 + ")"])
def test_depth_does_not_matter_to_errors(text):
    assert findings_of(text)[-1].code in {"EXPR0101", "EXPR0103"}
