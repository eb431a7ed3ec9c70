from __future__ import annotations

import math

import pytest

from graphport.core.diagnostics import Severity, Source
from graphport.expression.tokens import Text, TokenKind, tokenize, value_of
from tests.every import every


def words(text, **options):
    tokens, findings = tokenize(Text.of(text), **options)
    return [token.text for token in tokens], [finding.code for finding in findings]


def test_kinds():
    tokens, findings = tokenize(Text.of("add(@0,[1,None])"))
    assert not findings
    assert [token.kind for token in tokens] == [
        TokenKind.NAME,
        TokenKind.LEFT_PARENTHESIS,
        TokenKind.REFERENCE,
        TokenKind.COMMA,
        TokenKind.LEFT_BRACKET,
        TokenKind.NUMBER,
        TokenKind.COMMA,
        TokenKind.CONSTANT,
        TokenKind.RIGHT_BRACKET,
        TokenKind.RIGHT_PARENTHESIS,
    ]


@every(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0.5", 0.5),
        ("5.", 5.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.000000e-5", 1e-5),
        ("4.00000028e-2", 4.00000028e-2),
        ("1E+6", 1e6),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("-1.5e+00-2.5e-01j", -1.5 - 0.25j),
        ("2.000000e+00-3.000000e+00j", 2 - 3j),
        ("1+2j", 1 + 2j),
        ("True", True),
        ("False", False),
        ("None", None),
    ],
)
def test_values(text, value):
    (token,), findings = tokenize(Text.of(text))
    assert not findings
    assert (type(value_of(token)), value_of(token)) == (type(value), value)


@pytest.mark.parametrize("text", ["nan", "nan.0", "-nan"])
def test_nan(text):
    (token,), findings = tokenize(Text.of(text))
    value = value_of(token)
    assert not findings
    assert isinstance(value, float)
    assert math.isnan(value)


@every(
    ("text", "code", "column"),
    [
        pytest.param("2j", "EXPR0003", 1, id="a complex number has both parts"),
        pytest.param("add(@0,--2)", "EXPR0003", 8, id="two signs"),
        pytest.param("add(@0,+2)", "EXPR0003", 8, id="no plus"),
        pytest.param("1_000", "EXPR0003", 1, id="no grouping"),
        pytest.param("1.2.3", "EXPR0003", 1, id="two points"),
        pytest.param("0x10", "EXPR0003", 1, id="no hexadecimal"),
        pytest.param("1e", "EXPR0003", 1, id="no exponent"),
        pytest.param("-", "EXPR0003", 1, id="a sign alone"),
        pytest.param("a-b", "EXPR0003", 1, id="a sign inside a name"),
        pytest.param("9223372036854775808", "EXPR0006", 1, id="too large for 64 bits"),
        pytest.param("1e400", "EXPR0006", 1, id="too large for a double"),
        pytest.param("1.0+1e999j", "EXPR0006", 1, id="a part too large for a double"),
        pytest.param("@", "EXPR0004", 1, id="no digits"),
        pytest.param("@1x", "EXPR0004", 1, id="more than digits"),
        pytest.param("@-1", "EXPR0004", 1, id="below 0"),
        pytest.param("@1.5", "EXPR0004", 1, id="a fraction"),
        pytest.param("@99999999999999999999", "EXPR0004", 1, id="beyond any count"),
        pytest.param("add(@ 0,1)", "EXPR0005", 5, id="a blank inside a reference"),
        pytest.param("a;b", "EXPR0002", 2, id="another character"),
        pytest.param("ä", "EXPR0002", 1, id="no letter of ASCII"),
        pytest.param("１", "EXPR0002", 1, id="no digit of ASCII"),
        pytest.param("\xa0", "EXPR0002", 1, id="no blank of ASCII"),
        pytest.param("aten::lerp", "EXPR0002", 5, id="a colon"),
    ],
)
def test_invalid_token_reports_its_column(text, code, column):
    _, findings = tokenize(Text.of(text))
    assert findings[0].code == code
    assert findings[0].span is not None
    assert findings[0].span.column == column


def test_all_invalid_tokens_are_reported():
    assert words("add(#,2j,@)")[1] == ["EXPR0002", "EXPR0003", "EXPR0004"]


def test_a_huge_integer_is_refused_without_being_computed():
    assert words("9" * 1_000_000)[1] == ["EXPR0006"]


def test_lenient_tokenizer_joins_tokens_with_blanks():
    tokens, findings = tokenize(Text.of("a dd(@ 0 ,1 0)"), lenient=True)
    assert [token.text for token in tokens] == ["add", "(", "@0", ",", "10", ")"]
    assert [(token.start, token.end) for token in tokens[:3]] == [(0, 4), (4, 5), (5, 8)]
    assert [finding.code for finding in findings] == ["EXPR0005"] * 3
    assert all(finding.severity is Severity.WARNING for finding in findings)


def test_lenient_tokenizer_accepts_two_signs():
    tokens, findings = tokenize(Text.of("1.0e+00+-3.0e+00j"), lenient=True)
    assert value_of(tokens[0]) == 1 - 3j
    assert [finding.severity for finding in findings] == [Severity.WARNING]
    assert words("1.0e+00+-3.0e+00j")[1] == ["EXPR0003"]


def test_lenient_tokenizer_accepts_a_plus_sign():
    tokens, findings = tokenize(Text.of("add(@0,+3.5)"), lenient=True)
    assert value_of(tokens[4]) == 3.5
    assert [(finding.code, finding.severity) for finding in findings] == [("EXPR0003", Severity.WARNING)]
    assert words("+3.5")[1] == ["EXPR0003"]
    assert [finding.code for finding in tokenize(Text.of("+" + "9" * 99), lenient=True)[1]] == ["EXPR0006"]


def test_a_text_inside_a_file_is_located_there():
    source = Source("net.pnnx.param", "7767517\n1 1\npnnx.Expression e 1 1 0 1 expr=ad?(@0)\n")
    assert source.text is not None
    text = Text("ad?(@0)", source, source.text.index("ad?"))
    _, (finding,) = tokenize(text)
    assert finding.span is not None
    assert (finding.span.line, finding.span.column) == (3, 34)
