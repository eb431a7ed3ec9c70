from __future__ import annotations

import io
import json
import textwrap
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphport.cli.main import cli
from graphport.cli.render import Color, as_json, as_text, counts, wants_color
from graphport.core.diagnostics import Diagnostic, Severity, Source, Span
from tests.models import model, node, typed, write_onnx


def span_of(part: str, text: str, name: str = "model.nnef") -> Span:
    start = text.index(part)
    return Span(Source(name, text), start, start + len(part))


def drawn(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def marked(rendered: str) -> str:
    """Return the text above the carets of the first excerpt, in terminal columns."""
    lines = rendered.splitlines()
    index = next(number for number, line in enumerate(lines) if "^" in line)
    below = lines[index]
    return "".join(cells_of(lines[index - 1])[below.index("^") : below.rindex("^") + 1])


def cells_of(line: str) -> list[str]:
    """Return the content of each terminal cell; a wide character is in the first of its two."""
    cells: list[str] = []
    for character in line:
        if unicodedata.category(character) in {"Mn", "Me"} or is_drawn_before(character):
            cells[-1] += character
        else:
            cells += [character, ""] if unicodedata.east_asian_width(character) in {"W", "F"} else [character]
    return cells


def is_drawn_before(letter: str) -> bool:
    """Return whether a letter is a Hangul vowel or final, which is drawn in the cells of the first letter."""
    return "\u1160" <= letter <= "\u11ff"


def test_finding_shows_message_location_excerpt_and_remedy():
    text = "version 1.0;\n\ngraph net( x ) -> ( y )\n{\n    y = relu(hidden);\n}\n"
    finding = Diagnostic(
        "NNEF0302", "use of 'hidden' before its assignment", span_of("hidden", text), "assign it before line 5"
    )
    assert as_text([finding]) == drawn("""
        error[NNEF0302]: use of 'hidden' before its assignment
          --> model.nnef:5:14
           |
         5 |     y = relu(hidden);
           |              ^^^^^^
           = help: assign it before line 5
    """)


def test_several_findings_are_separated_and_counted():
    text = "a = f(b);\n"
    findings = [
        Diagnostic("NNEF0001", "no such operation", span_of("f", text)),
        Diagnostic("NNEF0002", "not used", span_of("a", text), severity=Severity.WARNING),
        Diagnostic("NNEF0003", "no such name", span_of("b", text)),
    ]
    assert as_text(findings) == drawn("""
        error[NNEF0001]: no such operation
          --> model.nnef:1:5
           |
         1 | a = f(b);
           |     ^

        warning[NNEF0002]: not used
          --> model.nnef:1:1
           |
         1 | a = f(b);
           | ^

        error[NNEF0003]: no such name
          --> model.nnef:1:7
           |
         1 | a = f(b);
           |       ^

        2 errors, 1 warning
    """)


def test_no_findings_render_as_empty_text():
    assert as_text([]) == ""


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        pytest.param([], "no findings", id="none"),
        pytest.param(["error"], "1 error", id="one is not plural"),
        pytest.param(["note", "warning", "error", "note"], "1 error, 1 warning, 2 notes", id="errors come first"),
    ],
)
def test_findings_are_counted_by_severity(severities, expected):
    assert counts(Diagnostic("IO0001", "m", severity=Severity(kind)) for kind in severities) == expected


@pytest.mark.parametrize(
    ("name", "place", "expected"),
    [
        pytest.param("model.onnx", 'graph.node[12] "conv1"', 'model.onnx: graph.node[12] "conv1"', id="a node"),
        pytest.param("weights.dat", "byte 16", "weights.dat: byte 16", id="a byte"),
        pytest.param("model.onnx", None, "model.onnx", id="the whole file"),
    ],
)
def test_location_in_a_binary_file_has_no_excerpt(name, place, expected):
    finding = Diagnostic("ONNX0001", "the kernel is not given", Span(Source(name), place=place), "say kernel_shape")
    assert as_text([finding]) == drawn(f"""
        error[ONNX0001]: the kernel is not given
          --> {expected}
           = help: say kernel_shape
    """)


def test_location_description_follows_the_line_number():
    source = Source("model.xml", "<net>\n<layer/>\n</net>\n")
    finding = Diagnostic("OV0001", "no type", Span(source, 6, 14, 'layer 17 "conv1"'))
    assert '--> model.xml:2:1 layer 17 "conv1"' in as_text([finding])


def test_finding_without_location_is_its_message():
    assert as_text([Diagnostic("RUN0001", "ncnn is not installed")]) == "error[RUN0001]: ncnn is not installed"


def test_a_remedy_of_several_lines_is_aligned():
    rendered = as_text([Diagnostic("RUN0001", "m", help="first\nsecond")])
    assert rendered.splitlines()[1:] == ["   = help: first", "           second"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param("\ta =\tf(bad);", "bad", id="tabs"),
        pytest.param('s = "漢字"; bad;', "bad", id="characters two cells wide before it"),
        pytest.param('s = "漢字";', "漢字", id="characters two cells wide in it"),
        pytest.param('s = "e\u0301e\u0301"; bad;', "bad", id="marks without a width"),
        pytest.param('s = "\u1112\u1161\u11ab"; bad;', "bad", id="syllables of several letters"),
        pytest.param("e\u094d\u094d bad", "e\u094d\u094d", id="marks without a width in it"),
        pytest.param("x" * 500 + " bad " + "y" * 500, "bad", id="the middle of a long line"),
        pytest.param("bad" + "y" * 500, "bad", id="the start of a long line"),
        pytest.param("x" * 500 + "bad", "bad", id="the end of a long line"),
        pytest.param("漢" * 500 + "bad" + "字" * 500, "bad", id="a long line of wide characters"),
        pytest.param("e" + "\u0301" * 5000 + "bad", "bad", id="a long line of one cell"),
    ],
)
def test_carets_underline_the_span(text, part):
    rendered = as_text([Diagnostic("NNEF0001", "m", span_of(part, text))], width=60)
    assert marked(rendered) == part
    assert all(len(line) <= 60 * 4 for line in rendered.splitlines())


def test_carets_underline_combining_marks_at_their_base():
    assert (
        marked(as_text([Diagnostic("NNEF0001", "m", span_of("\u0301\u0301x", "ae\u0301\u0301x"))])) == "e\u0301\u0301x"
    )
    assert marked(as_text([Diagnostic("NNEF0001", "m", span_of("\u0301", "ae\u0301"))])) == "e\u0301"


def test_tab_is_expanded_in_the_excerpt():
    assert " 1 |     a =    f;" in as_text([Diagnostic("NNEF0001", "m", span_of("a", "\ta =\tf;"))])


def test_a_truncated_line_fills_the_width_with_control_marks():
    text = "e\u0301" * 100 + "bad" + "e\u0301" * 100
    excerpt = as_text([Diagnostic("NNEF0001", "m", span_of("bad", text))], width=45).splitlines()[3]
    assert excerpt == " 1 | …" + "e\u0301" * 18 + "bad" + "e\u0301" * 17 + "…"


def test_a_long_line_is_cut_around_the_span():
    text = "x" * 100 + "bad" + "y" * 100
    assert as_text([Diagnostic("NNEF0001", "m", span_of("bad", text))], width=30) == drawn("""
        error[NNEF0001]: m
          --> model.nnef:1:101
           |
         1 | …xxxxxxxxxxbadyyyyyyyyyy…
           |            ^^^
    """)


def test_a_span_longer_than_the_line_shows_its_beginning():
    text = "a = " + "x" * 100 + ";"
    assert as_text([Diagnostic("NNEF0001", "m", span_of("x" * 100, text))], width=30) == drawn("""
        error[NNEF0001]: m
          --> model.nnef:1:5
           |
         1 | …xxxxxxxxxxxxxxxxxxxxxxx…
           |  ^^^^^^^^^^^^^^^^^^^^^^^
    """)


def test_a_span_over_lines_is_marked_in_each():
    text = "a = 1;\nb = conv(x,  \n\n         w)  ;\n"
    start = text.index("conv")
    span = Span(Source("model.nnef", text), start, text.index("  ;"))
    assert as_text([Diagnostic("NNEF0001", "m", span)]) == drawn("""
        error[NNEF0001]: m
          --> model.nnef:2:5
           |
         2 | b = conv(x,
           |     ^^^^^^^
         3 |
         4 |          w)  ;
           |          ^^
    """)


def test_long_span_shows_its_first_and_last_lines():
    text = "\n".join(f"line{number}" for number in range(1, 21))
    rendered = as_text([Diagnostic("NNEF0001", "m", Span(Source("model.nnef", text), 0, len(text)))])
    assert [line for line in rendered.splitlines() if "line" in line or line == "..."] == [
        *(f"  {number} | line{number}" for number in range(1, 6)),
        "...",
        " 20 | line20",
    ]


def test_a_single_line_is_not_omitted():
    text = "\n".join(f"line{number}" for number in range(1, 8))
    rendered = as_text([Diagnostic("NNEF0001", "m", Span(Source("model.nnef", text), 0, len(text)))])
    assert rendered.count("line") == 7


def test_gutter_width_fits_the_line_number():
    text = "\n" * 99 + "bad\n"
    assert as_text([Diagnostic("NNEF0001", "m", span_of("bad", text), "h")]) == drawn("""
        error[NNEF0001]: m
            --> model.nnef:100:1
             |
         100 | bad
             | ^^^
             = help: h
    """)


def test_span_with_the_line_end_stays_on_its_line():
    text = "bad\nnext\n"
    rendered = as_text([Diagnostic("NNEF0001", "m", Span(Source("model.nnef", text), 0, 4))])
    assert "next" not in rendered
    assert marked(rendered) == "bad"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("", "1:1", id="an empty file"),
        pytest.param("a = 1;", "1:7", id="no line end at the end"),
        pytest.param("a = 1;\n", "2:1", id="after the last line end"),
    ],
)
def test_the_end_of_the_file_has_a_caret(text, place):
    rendered = as_text([Diagnostic("NNEF0001", "m", Span(Source("model.nnef", text), len(text), len(text)))])
    assert f"--> model.nnef:{place}" in rendered
    assert rendered.count("^") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\x1b[31mred", "␛[31mred", id="escape sequence"),
        pytest.param("a\u202eb", "a<U+202E>b", id="turned writing"),
        pytest.param("a\u200bb", "a<U+200B>b", id="space without a width"),
        pytest.param("a\x9bb", "a<U+009B>b", id="control character above ASCII"),
        pytest.param("a\ud800b", "a<U+D800>b", id="half a character"),
        pytest.param("a\x7fb", "a<U+007F>b", id="delete"),
    ],
)
def test_control_characters_of_the_input_are_escaped(text, expected):
    finding = Diagnostic("NNEF0001", text, Span(Source(text, text), 0, len(text), text), text)
    rendered = as_text([finding])
    assert rendered.count(expected) == 5
    assert marked(rendered) == expected
    assert rendered.encode().decode() == rendered


def test_a_sentence_cannot_pass_for_another_finding():
    rendered = as_text([Diagnostic("NNEF0001", "no name 'a\nerror[NNEF0002]: b'")])
    assert [line for line in rendered.splitlines() if line.startswith("error")] == ["error[NNEF0001]: no name 'a"]


@given(
    text=st.text(st.characters(exclude_categories=[]) | st.sampled_from("\t\n\r漢\u0301 x"), max_size=80),
    start=st.integers(0, 90),
    length=st.integers(0, 90),
    width=st.integers(1, 60),
)
@example(text="a\r\nb", start=2, length=0, width=40)
@example(text="0" * 20 + "\u094d", start=20, length=0, width=1)
@example(text="0" * 20 + "\u094d\u094d", start=0, length=0, width=1)
def test_every_span_of_every_text_is_drawn_within_the_width(text, start, length, width):
    rendered = as_text([Diagnostic("NNEF0001", "m", Span(Source("m", text), start, start + length))], width=width)
    below = rendered.splitlines()[2:]
    assert any("^" in line for line in below)
    gutter = below[0].index("|") + 2
    assert all(len(cells_of(line)) <= max(width, gutter + 20) for line in below)
    assert rendered.isprintable() or set(rendered) & set("\n\u3000")


def test_color_marks_severity_and_carets_and_changes_no_text():
    text = "a = bad;"
    findings = [Diagnostic("NNEF0001", "m", span_of("bad", text), "h")]
    colored = as_text(findings, color=True)
    assert "\x1b[31m\x1b[1merror[NNEF0001]\x1b[0m: m" in colored
    assert "\x1b[31m\x1b[1m^^^\x1b[0m" in colored
    plain = colored
    for code in ("\x1b[31m", "\x1b[34m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == as_text(findings)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "stream", "environment", "expected"),
    [
        pytest.param(Color.AUTO, Terminal(), {}, True, id="a terminal"),
        pytest.param(Color.AUTO, io.StringIO(), {}, False, id="a pipe"),
        pytest.param(Color.AUTO, Terminal(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Color.AUTO, Terminal(), {"NO_COLOR": ""}, True, id="an empty NO_COLOR is none"),
        pytest.param(Color.AUTO, Terminal(), {"TERM": "dumb"}, False, id="a terminal that cannot"),
        pytest.param(Color.AUTO, io.StringIO(), {"FORCE_COLOR": "1"}, True, id="FORCE_COLOR"),
        pytest.param(Color.ALWAYS, io.StringIO(), {"NO_COLOR": "1"}, True, id="always means always"),
        pytest.param(Color.NEVER, Terminal(), {"FORCE_COLOR": "1"}, False, id="never means never"),
    ],
)
def test_color_follows_option_stream_and_environment(monkeypatch, choice, stream, environment, expected):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, setting in environment.items():
        monkeypatch.setenv(name, setting)
    assert wants_color(choice, stream) is expected


def test_json_contains_every_field_of_the_text():
    text = "x = 1;\ny = bad;"
    finding = Diagnostic("NNEF0302", "no such name", span_of("bad", text), "assign it", Severity.WARNING)
    assert json.loads(json.dumps(as_json(finding))) == {
        "code": "NNEF0302",
        "severity": "warning",
        "message": "no such name",
        "file": "model.nnef",
        "line": 2,
        "column": 5,
        "help": "assign it",
    }


def test_json_has_null_for_unknown_fields():
    binary = as_json(Diagnostic("ONNX0001", "m", Span(Source("model.onnx"), place="graph")))
    assert (binary["file"], binary["line"], binary["column"], binary["help"]) == ("model.onnx", None, None, None)
    nowhere = as_json(Diagnostic("RUN0001", "m"))
    assert (nowhere["file"], nowhere["line"], nowhere["column"]) == (None, None, None)


def test_names_of_a_stranger_are_obeyed_by_no_terminal(tmp_path, monkeypatch, capsys):
    odd = "x\n\x1b[31mred\x07"
    path = tmp_path / "a\nb\x1b[2J.onnx"
    write_onnx(path, model([node("Relu", [odd], ["y\x1b]0;t"])], [typed(odd, [2])], [typed("y\x1b]0;t", [2])]))
    for arguments in (["shapes"], ["inspect"], ["check"], ["convert", str(tmp_path / "c\x1b[2J.xml")]):
        verb, *rest = arguments
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        cli.main([verb, str(path), *rest, "--no-verify"] if rest else [verb, str(path)], standalone_mode=False)
        output = capsys.readouterr().out
        assert "\x1b[31m" not in output
        assert "\x1b[2J" not in output
        assert "\x1b]0" not in output
        assert "\x07" not in output
