from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span, raise_errors


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        pytest.param("", 0, (1, 1), id="an empty text has a first line"),
        pytest.param("ab\ncd", 0, (1, 1), id="both count from 1"),
        pytest.param("ab\ncd", 2, (1, 3), id="a line end belongs to its line"),
        pytest.param("ab\ncd", 3, (2, 1), id="after LF"),
        pytest.param("ab\r\ncd", 4, (2, 1), id="CR LF is one line end"),
        pytest.param("ab\rcd", 3, (2, 1), id="CR alone"),
        pytest.param("a\n\r\nb", 2, (2, 1), id="an empty line"),
        pytest.param("ä漢😀x", 3, (1, 4), id="columns are code points, not bytes or cells"),
        pytest.param("a\u2028b\x0cc", 4, (1, 5), id="only CR and LF end lines"),
        pytest.param("ab\n", 3, (2, 1), id="the end of the text"),
    ],
)
def test_positions_count_lines_and_code_points(text, offset, expected):
    assert Source("model.nnef", text).position(offset) == expected


@given(st.text(st.sampled_from("ab\r\n漢"), max_size=40))
def test_lines_and_their_ends_are_the_text(text):
    source = Source("model.nnef", text)
    bounds = [*source.line_starts, len(text)]
    for number, (start, stop) in enumerate(pairwise(bounds), 1):
        line = source.line(number)
        assert text[start:stop].startswith(line)
        assert text[start + len(line) : stop] in {"", "\n", "\r", "\r\n"}
        assert not set(line) & {"\r", "\n"}


@given(st.text(st.sampled_from("ab\r\n漢"), max_size=40), st.data())
def test_a_position_leads_back_to_its_offset(text, data):
    offset = data.draw(st.integers(0, len(text)))
    source = Source("model.nnef", text)
    line, column = source.position(offset)
    assert source.line_starts[line - 1] + column - 1 == offset


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        pytest.param(Span(Source("m.nnef", "a\nb"), 2, 3), "m.nnef:2:1", id="a text"),
        pytest.param(Span(Source("m.xml", "a\nb"), 2, 3, 'layer 1 "x"'), 'm.xml:2:1 layer 1 "x"', id="text and words"),
        pytest.param(Span(Source("m.onnx"), place="graph.node[1]"), "m.onnx: graph.node[1]", id="words"),
        pytest.param(Span(Source("m.onnx")), "m.onnx", id="a whole file"),
    ],
)
def test_span_str_is_a_location(span, expected):
    assert str(span) == expected


def test_location_in_a_binary_file_has_no_line():
    span = Span(Source("m.dat"), place="byte 16")
    assert (span.file, span.line, span.column) == ("m.dat", None, None)


def test_spans_join_from_the_first_to_the_second():
    source = Source("m.nnef", "abcdef")
    assert Span(source, 1, 2).to(Span(source, 4, 5)) == Span(source, 1, 5)


def test_sources_are_compared_by_identity():
    assert Span(Source("m", "a"), 0, 1) != Span(Source("m", "a"), 0, 1)


def test_diagnostic_str_is_one_line():
    span = Span(Source("m.nnef", "abc"), 1, 2)
    finding = Diagnostic("NNEF0001", "no such name", span, "assign it")
    assert str(finding) == "m.nnef:1:2: error[NNEF0001]: no such name (assign it)"
    assert str(Diagnostic("RUN0001", "m", severity=Severity.NOTE)) == "note[RUN0001]: m"


def test_an_error_carries_every_finding():
    findings = [Diagnostic("NNEF0001", "a"), Diagnostic("NNEF0002", "b", severity=Severity.WARNING)]
    error = DiagnosticError(*findings)
    assert error.diagnostics == findings
    assert str(error) == "error[NNEF0001]: a\nwarning[NNEF0002]: b"


def test_an_error_survives_the_way_between_processes():
    error = DiagnosticError(Diagnostic("NNEF0001", "a", Span(Source("m.nnef", "abc"), 1, 2)))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  our own bytes


def test_errors_are_raised_with_the_warnings_next_to_them():
    findings = [Diagnostic("NNEF0002", "b", severity=Severity.WARNING), Diagnostic("NNEF0001", "a")]
    with pytest.raises(DiagnosticError) as caught:
        raise_errors(iter(findings))
    assert caught.value.diagnostics == findings


def test_raise_errors_ignores_warnings():
    raise_errors([Diagnostic("NNEF0002", "b", severity=Severity.WARNING)])


def test_findings_are_plain_data():
    span = Span(Source("m.nnef", "a\nbc"), 3, 4)
    finding = Diagnostic("NNEF0001", "no such name", span, "assign it", Severity.WARNING)
    assert not finding.is_error
    assert finding.as_json() == {
        "code": "NNEF0001",
        "severity": "warning",
        "message": "no such name",
        "file": "m.nnef",
        "line": 2,
        "column": 2,
        "help": "assign it",
    }
    bare = Diagnostic("RUN0001", "m").as_json()
    assert (bare["severity"], bare["file"], bare["line"], bare["column"], bare["help"]) == ("error", *[None] * 4)


def test_joined_spans_keep_the_location_of_the_first():
    source = Source("m.nnef", "abcdef")
    first = Span(source, 1, 2, "here", "block")
    assert first.to(Span(source, 4, 5, "there", "other")) == Span(source, 1, 5, "here", "block")
