"""Texts that mean harm: whatever they say, every stage ends soon, with findings and nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core import budget
from graphport.core.diagnostics import DiagnosticError, Source
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.formatter import format_text
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.quant import parse_quantization
from graphport.formats.nnef.container.syntax import Edition
from tests.draws import times
from tests.every import every
from tests.formats.nnef.documents import BOTH, OPERATORS, final, fragment, infer, probed, provisional
from tests.formats.nnef.trees import documents

WORDS = [
    "version",
    "1.0",
    ";",
    "extension",
    "KHR_enable_operator_expressions",
    "fragment",
    "graph",
    "f",
    "x",
    "y",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "->",
    "=",
    "==",
    ":",
    ",",
    "+",
    "-",
    "*",
    "/",
    "^",
    "!",
    "&&",
    "in",
    "if",
    "else",
    "for",
    "yield",
    "shape_of",
    "length_of",
    "tensor",
    "integer",
    "extent",
    "scalar",
    "logical",
    "string",
    "?",
    "true",
    "'a'",
    '"',
    "1",
    "2.5",
    "9223372036854775808",
    "#",
    "external",
    "variable",
    "update",
    "constant",
    "split",
    "concat",
    "relu",
    "add",
    "shape",
    "label",
    "axis",
]


def survives(text: str, edition: Edition | None = None) -> None:
    parsed = parse(Source("model.nnef", text), edition)
    for finding in parsed.diagnostics:
        assert finding.span is None or 0 <= (finding.span.start or 0) <= len(text)
    checked = check(parsed.document)
    if not any(finding.is_error for finding in (*parsed.diagnostics, *checked.diagnostics)):
        expand(checked, infer=infer)
    try:
        format_text(Source("model.nnef", text), edition)
    except DiagnosticError:
        assert parsed.diagnostics


@given(st.text())
def test_any_text(text):
    survives(text)
    survives(text, Edition.FINAL)


@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
@settings(max_examples=times(300))
def test_any_op_types(text):
    survives(text)
    survives(final(text))
    survives(provisional(text))
    survives(
        final("y = f(x);", before=BOTH + "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { " + text + " }")
    )


@given(documents())
@settings(max_examples=times(50))
def test_any_grammatical_document(document):
    survives(to_text(document), document.edition)


@given(st.text(), st.sampled_from([*Edition]))
def test_any_quantization_file(text, edition):
    parse_quantization(Source("graph.quant", text), edition)
    parse_quantization(Source("graph.quant", f'"a": f(k = {text});'), edition)


GOOD = final(
    "y = f(x, n = 2);",
    before=fragment("y = f(relu(x), n = n - 1) if n > 0 else x + 1.0;", parameters="x: tensor<scalar>, n: integer"),
)


@given(st.integers(0, len(GOOD)), st.integers(0, 5), st.text(alphabet="(){}[]<>;:,'\"#=+-x1.\n ", max_size=3))
@settings(max_examples=times(200))
def test_a_good_document_with_a_wound(at, length, text):
    survives(GOOD[:at] + text + GOOD[at + length :])


def deep_and_long(n: int) -> list[Any]:
    """Texts that nest `n` times, or are as long."""
    return [
        pytest.param(final("y = " + "(" * n + "x" + ")" * n + ";", before=OPERATORS), id="parentheses"),
        pytest.param(final("y = " + "[" * n + "x" + "]" * n + ";", before=OPERATORS), id="brackets"),
        pytest.param(final("y = " + "-" * n + "x;", before=OPERATORS), id="minus signs"),
        pytest.param(final("y = x" + "[0]" * n + ";", before=OPERATORS), id="subscripts"),
        pytest.param(final("y = " + "x if true else " * n + "x;", before=OPERATORS), id="selections to the right"),
        pytest.param(final("y = " + "x if " * n + "true" + " else x" * n + ";", before=OPERATORS), id="to the left"),
        pytest.param(final("y = " + "shape_of(" * n + "x" + ")" * n + ";", before=OPERATORS), id="built-in functions"),
        pytest.param(probed("[for i in [1] yield " * n + "1" + "]" * n), id="comprehensions"),
        pytest.param(probed("[1] * 2000000000 * 2000000000"), id="arrays of arrays"),
        pytest.param(probed("[" + "9 ^ " * 1000 + "9]"), id="a tower of powers"),
        pytest.param(final("[" * n + "y" + "]" * n + " = relu(x);"), id="brackets on the left"),
        pytest.param(
            final("y = relu(x);", before=f"{BOTH}fragment f( x: integer{'[]' * n} ) -> ( y: tensor<> );\n"),
            id="a type",
        ),
        pytest.param(
            final("y = relu(x);", before=f"{BOTH}fragment f( x: {'(' * n}integer ) -> ( y: tensor<> );\n"),
            id="a tuple type",
        ),
        pytest.param(final("y = ((((" * (n // 2)), id="open parentheses"),
        pytest.param("(((([[[[{{{{" * (n // 2), id="nothing but brackets"),
        pytest.param(final("y = '" + "\\" * (5 * n)), id="backslashes"),
        pytest.param(final(f"{'a' * (5 * n)} = relu(x);", f"y = relu({'a' * (5 * n)});"), id="a long name"),
        pytest.param(final(f"y = leaky_relu(x, alpha = 0.{'1' * (5 * n)});"), id="a long number"),
        pytest.param(
            final(*[f"a{index} = relu(b{index} @);" for index in range(n // 2)]).replace("\n", " "),
            id="mistakes on one line",
        ),
        pytest.param(
            provisional(*[f"[a{index}]\n = relu(x)" for index in range(n // 2)]), id="brackets that begin lines"
        ),
        pytest.param("#" * (10 * n), id="a comment"),
        pytest.param("\0" * (5 * n), id="nothing at all"),
    ]


def ends_in_time(text: str, seconds: float) -> None:
    begin = time.process_time()
    survives(text)
    assert time.process_time() - begin < seconds


@every("text", deep_and_long(2_000))
def test_deep_and_long_texts_end_soon(text):
    ends_in_time(text, 2)  # a tenth of one on an idle machine


@pytest.mark.conformance
@every("text", deep_and_long(20_000))
def test_deeper_and_longer_texts_end_soon(text):
    ends_in_time(text, 30)  # a few seconds on an idle machine


def test_time_grows_with_the_length_not_faster():
    def seconds(count: int) -> float:
        lines = [f"a{index} = conv(x, w, stride = [1, 1]); # {index}" for index in range(count)]
        begin = time.process_time()
        check(
            parse(
                Source("model.nnef", final("w = variable(shape = [1], label = 'w');", *lines, "y = relu(x);"))
            ).document
        )
        return time.process_time() - begin

    seconds(1000)
    assert seconds(40_000) < 40 * max(seconds(4_000), 0.05)


@pytest.mark.parametrize("ending", ["onnx", "xml", "tflite", "pnnx.param"])
def test_one_number_in_terabytes_is_not_spelt_out(tmp_path, ending):
    path = tmp_path / "m.nnef"
    body = "x = external(shape = [2, 3]); z = constant(shape = [4398046511104], value = [1.0]); y = copy(z);"
    path.write_text(f"version 1.0;\ngraph g(x) -> (y)\n{{\n {body}\n}}\n", encoding="utf-8")
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.save(gp.load(path), tmp_path / f"o.{ending}")
    assert caught.value.diagnostics[0].code in ("LIMIT0001", "LEG0002")
    assert [each.name for each in tmp_path.iterdir()] == ["m.nnef"]


def test_no_entries_beside_extents_past_all_addresses_are_too_many():
    for extents in ((0, 2**40, 2**40), (2**62,), (2**40, 0, -1, 2**40)):
        with pytest.raises(budget.OverBudgetError):
            budget.reserve(*extents)
    assert budget.reserve(0, 2**20) == 0
