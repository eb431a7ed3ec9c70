from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.diagnostics import DiagnosticError, Source
from graphport.formats.nnef.container.formatter import WIDTH, format_text, is_formatted
from graphport.formats.nnef.container.lexer import comments, tokenize
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.printer import to_text
from tests import deep
from tests.draws import times
from tests.formats.nnef.documents import final, fragment, provisional, tree
from tests.formats.nnef.trees import documents

UGLY = """\
# about all of it
version   1.0 ; # the version
extension KHR_enable_fragment_definitions , KHR_enable_operator_expressions;


# about f
fragment f<?=scalar>(x:tensor<?>,a:(integer,scalar)[]=[(1,2.0),(-1,3.0)],b:tensor<scalar>=0.5)->(y:tensor<?>,z:tensor<?>[]){ # body

 y=-x+b*3.0^-2.0 if a[0]in a[1:]&&!true else f<scalar>(x)[0]; # behind
 # alone
 z=[for i in a,j in range_of(a)if i[0]>3 yield x];



 [p,q]=g(x, # first
   # second
   a=a[:],b=x[n:n+2],c="ab\\"c");w=(a+b)*-(c)in[d] ;
 # last
}
fragment g(x: tensor<>)->(y:tensor<scalar>);
graph main(x)->(y)
{
    x=external<scalar>(shape=[1,3,-8,8e3]);
y=relu(x);}
# the end"""

PRETTY = """\
# about all of it
version 1.0;  # the version
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;

# about f
fragment f<? = scalar>(
    x: tensor<?>,
    a: (integer, scalar)[] = [(1, 2.0), (-1, 3.0)],
    b: tensor<scalar> = 0.5 )
-> ( y: tensor<?>, z: tensor<?>[] )
{  # body
    y = -x + b * 3.0 ^ -2.0 if a[0] in a[1:] && !true else f<scalar>(x)[0];  # behind
    # alone
    z = [for i in a, j in range_of(a) if i[0] > 3 yield x];

    [p, q] = g(x,  # first
        # second
        a = a[:], b = x[n:n + 2], c = "ab\\"c");
    w = (a + b) * -(c) in [d];
    # last
}

fragment g( x: tensor<> ) -> ( y: tensor<scalar> );

graph main( x ) -> ( y )
{
    x = external<scalar>(shape = [1, 3, -8, 8e3]);
    y = relu(x);
}

# the end
"""


def formatted(text: str) -> str:
    return format_text(Source("model.nnef", text))


def test_every_text_gets_the_same_layout():
    assert formatted(UGLY) == PRETTY
    assert is_formatted(Source("model.nnef", PRETTY))
    assert not is_formatted(Source("model.nnef", UGLY))


def test_line_ends_of_other_systems_become_newlines():
    assert formatted(UGLY.replace("\n", "\r\n")) == PRETTY


def test_long_statements_are_broken_after_commas():
    text = formatted(final("y = f(x, " + ", ".join(f"parameter{index} = [1, 2, 3]" for index in range(12)) + ");"))
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert [line for line in lines if line.startswith(" " * 8)]
    assert formatted(text) == text


def test_long_expressions_are_broken_before_operators():
    text = formatted(final("y = " + " + ".join(f"operand{index}" for index in range(30)) + ";"))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\n        + operand" in text


def test_headers_that_are_too_long_have_a_parameter_a_line():
    long = ", ".join(f"parameter{index}: tensor<scalar>" for index in range(5))
    text = formatted(final("y = relu(x);", before=fragment("y = relu(x);", parameters=f"x: tensor<scalar>, {long}")))
    assert "fragment f(\n    x: tensor<scalar>,\n    parameter0: tensor<scalar>," in text
    assert "parameter4: tensor<scalar> )\n-> ( y: tensor<scalar> )\n{\n" in text


def test_the_provisional_edition_is_formatted_too():
    text = provisional(
        "y=f(x)", before="fragment f(x:tensor)->(y:tensor){\n  a,b=x,x\n  y=[i for i in[a]if true][0]}\n"
    )
    assert "    a, b = x, x\n    y = [i for i in [a] if true][0]\n}\n" in formatted(text)


def test_a_text_with_mistakes_is_refused():
    with pytest.raises(DiagnosticError) as caught:
        formatted(final("y = relu(x"))
    assert [each.code for each in caught.value.diagnostics] == ["NNEF0201"]


def test_deep_and_long_texts_are_formatted():
    levels = deep.LEVELS
    assert formatted(final("y = " + "(" * levels + "x" + ")" * levels + ";")).count("(") > levels
    assert max(map(len, formatted(final("y = x" + " + x" * 3 * levels + ";")).splitlines())) <= WIDTH


def spread(text: str, gaps: list[str]) -> str:
    """`text` with other white space and comments between its words."""
    tokens = tokenize(text)
    parts = []
    for index, word in enumerate(tokens.texts):
        if index:
            start = tokens.stop(index - 1)
            gap = gaps[index % len(gaps)]
            is_line_end = "\n" in text[start : tokens.starts[index]]
            parts.append(gap + ("\n" if is_line_end else " ") if gap or start < tokens.starts[index] else "")
        parts.append(word)
    return "".join(parts)


GAPS = st.lists(
    st.sampled_from(["", "", "", " ", "\n", "\n\n\n", "\t# c\n", "\n# d # e\n", " #\r\n"]), min_size=1, max_size=9
)


@given(documents(), GAPS)
@settings(max_examples=times(60))
def test_formatting_keeps_the_tree_and_the_comments_and_is_idempotent(document, gaps):
    text = spread(to_text(document), gaps)
    before = parse(Source("before", text), document.edition)
    if before.diagnostics:
        return  # a line end may be what parts two provisional statements
    after = format_text(Source("before", text), document.edition)
    assert parse(Source("after", after), document.edition).document == before.document
    assert [each.text.rstrip() for each in comments(after)] == [each.text.rstrip() for each in comments(text)]
    assert format_text(Source("after", after), document.edition) == after
    assert not re.search(r"[ \t]$", after, re.MULTILINE)


def test_formatting_a_document_without_comments_equals_its_parts():
    document = tree(PRETTY)
    assert document.comments[0].text == "# about all of it"
    assert len(document.comments) == 10
