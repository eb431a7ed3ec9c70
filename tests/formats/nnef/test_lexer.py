from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import Source, Span
from graphport.formats.nnef.container.lexer import (
    comments,
    fault_of_number,
    string_literal,
    string_value,
    tokenize,
)
from tests.formats.nnef.documents import codes, column, final, findings, line


def faulty(statement: str) -> list[str]:
    return codes(findings(final(statement, "y = relu(x);")))


def test_words_are_cut_without_white_space_and_comments():
    tokens = tokenize("a = f(b, 1.5e-3); # no\n\f->'s \\' t'")
    assert tokens.texts == ["a", "=", "f", "(", "b", ",", "1.5e-3", ")", ";", "->", "'s \\' t'", ""]


@given(st.text())
def test_places_say_where_words_stand(text):
    tokens = tokenize(text, keeps_comments=True)
    for word, start in zip(tokens.texts, tokens.starts, strict=True):
        assert text[start : start + len(word)] == word


@given(st.text(alphabet="ab \t\n#'\"\\;"))
def test_every_character_is_in_a_word_or_is_white_space(text):
    tokens = tokenize(text, keeps_comments=True)
    assert "".join(tokens.texts) == "".join(text.split()) or any(word[0] in "'\"#" for word in tokens.texts if word)


@pytest.mark.parametrize("end", ["\n", "\f", "\r", "\r\n"], ids=["newline", "form feed", "return", "both"])
def test_a_comment_lasts_until_its_line_ends(end):
    assert tokenize(f"a # b{end}c").texts == ["a", "c", ""]


def test_comments_are_found_outside_of_strings():
    assert [(each.text, each.start) for each in comments("a = '#1' # two\n\"#\" #3")] == [("# two", 9), ("#3", 19)]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        pytest.param("'plain'", "plain", id="single quotes"),
        pytest.param('"plain"', "plain", id="double quotes"),
        pytest.param(r"'a\'b'", "a'b", id="escaped quote"),
        pytest.param(r"'a\\b'", "a\\b", id="escaped backslash"),
        pytest.param(r"'a\"b'", 'a\\"b', id="the other quote needs no escape"),
        pytest.param(r"'a\nb'", "a\\nb", id="a backslash before anything else stays"),
        pytest.param(r"'\\\''", "\\'", id="escapes in a row"),
    ],
)
def test_strings_denote_their_characters(literal, value):
    assert string_value(literal) == value


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_every_printable_string_has_a_literal(value):
    literal = string_literal(value)
    assert string_value(literal) == value
    assert tokenize(literal).texts == [literal, ""]


@pytest.mark.parametrize("name", ["_", "a1", "true_value", "falsey", "A_b_9", "graph_"])
def test_identifiers_are_letters_digits_and_underscores(name):
    assert faulty(f"{name} = relu(x);") == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("a = relu(x @ x);", "NNEF0101", id="a character of no word"),
        pytest.param("a = leaky_relu(x, alpha = .5);", "NNEF0101", id="a number without digits before the point"),
        pytest.param("ä = relu(x);", "NNEF0101", id="a letter outside of ASCII"),
        pytest.param("1a = relu(x);", "NNEF0102", id="an identifier that begins with a digit"),
        pytest.param("a = leaky_relu(x, alpha = 1e);", "NNEF0102", id="an exponent without digits"),
        pytest.param("a = leaky_relu(x, alpha = 1.);", "NNEF0102", id="a point without digits behind"),
        pytest.param("a = leaky_relu(x, alpha = 1.2.3);", "NNEF0102", id="two points"),
        pytest.param("a = reshape(x, shape = [0x10]);", "NNEF0102", id="hexadecimal"),
        pytest.param("a = reshape(x, shape = [9223372036854775808]);", "NNEF0103", id="an integer of 65 bits"),
        pytest.param("a = reshape(x, shape = [99999999999999999999]);", "NNEF0103", id="an integer of 67 bits"),
        pytest.param("a = pad(x, padding = [], border = 'constant);", "NNEF0104", id="an open string"),
        pytest.param("a = pad(x, padding = [], border = \"constant');", "NNEF0104", id="quotes that differ"),
        pytest.param("a = pad(x, padding = [], border = 'constant\\');", "NNEF0104", id="an escaped end"),
        pytest.param("a = variable(shape = [1], label = 'ä');", "NNEF0105", id="a string outside of ASCII"),
        pytest.param("a = variable(shape = [1], label = 'a\tb');", "NNEF0105", id="a tab in a string"),
        pytest.param("a = leaky_relu(x, alpha = 1e999);", "NNEF0106", id="a number beyond doubles"),
        pytest.param("a = variable(shape = [1], label = 'a\\b');", "NNEF0107", id="an escape that is none"),
    ],
)
def test_a_word_that_is_wrong_is_the_finding(statement, code):
    assert faulty(statement)[0] == code


def test_an_escape_that_is_none_is_a_warning_only():
    (found,) = findings(final("a = variable(shape = [1], label = 'a\\b');", "y = relu(x);"))
    assert not found.is_error
    assert found.span is not None
    assert (line(found), column(found)) == (5, 41)


def test_the_smallest_integer_needs_its_minus():
    span = Span(Source("a", ""), 0, 0)
    assert fault_of_number("9223372036854775808", span, negative=True) is None
    assert fault_of_number("9223372036854775809", span, negative=True) is not None
    assert findings(final("y = slice(x, axes = [1], begin = [-9223372036854775808], end = [3]);")) == []


@pytest.mark.parametrize("number", ["0", "007", "3.25", "1e5", "1E+5", "2.5e-10", "9223372036854775807"])
def test_numbers_are_digits_a_fraction_and_an_exponent(number):
    assert fault_of_number(number, Span(Source("a", ""), 0, 0)) is None


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\t\v\f "])
def test_any_white_space_separates(end):
    assert findings(final("y = relu(x);").replace("\n", end)) == []


def test_a_byte_order_mark_is_passed_over():
    assert findings("\ufeff" + final("y = relu(x);")) == []
