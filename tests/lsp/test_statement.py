"""The edited statement is parsed separately, with the results of parsing the whole text."""

from __future__ import annotations

import time

import pytest

from graphport.lsp.diagnostics import analyse, to_lsp_diagnostic
from graphport.lsp.server import OpenDocument

BODY = """version 1.0;
extension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;

fragment twice(a: tensor<scalar>) -> (b: tensor<scalar>)
{
    b = a + a;
}

graph net(x) -> (y, flags)
{
    x = external(shape = [1, 3, 8, 8]);
    w = variable(shape = [4, 3, 3, 3], label = 'w');
    h = conv(x, w, 0.0, padding = [(1, 1), (1, 1)]);  # a comment
    t = twice(h);
    flags = t > 0.5;
    [a, b] = split(t, axis = 1,
                   ratios = [1, 1]);
    y = relu(a);
}
"""


def opened(source: str) -> OpenDocument:
    """A text that was read as a whole."""
    text = OpenDocument("file:///net.nnef")
    text.update(source, 1)
    text.analysis = analyse(source, text.path, 1, "nnef")
    text.published = [to_lsp_diagnostic(finding, text.lines) for finding in text.analysis.findings]
    return text


def typed(text: OpenDocument, source: str) -> bool:
    before = text.lines
    text.update(source, 2)
    return text.check_changes(before)


def told(findings) -> list[tuple[str, int, int, int, int]]:
    places = [(str(each.code), each.range.start, each.range.end) for each in findings]
    return sorted((code, start.line, start.character, end.line, end.character) for code, start, end in places)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param("conv(x", "cnov(x", "NNEF0322", id="no such operation"),
        pytest.param("twice(h)", "twice(g)", "NNEF0303", id="no such value"),
        pytest.param("0.0, padding", "0.0, paddings", "NNEF0326", id="no such parameter"),
        pytest.param("conv(x, w, 0.0", "conv(x, w, 0.0 0.0", "NNEF0201", id="no comma"),
        pytest.param("twice(h);", "twice(h)", "NNEF0203", id="no semicolon"),
        pytest.param("twice(h)", "conv(h, w)", None, id="shapes that were known"),
        pytest.param("ratios = [1, 1]", "ratios = [1, 2]", None, id="in the second line of a statement"),
        pytest.param("relu(a)", "relu(flags)", None, id="a type that was known"),
        pytest.param("relu(a)", "leaky_relu(a, alpha = 0.1)", "", id="nothing wrong"),
    ],
)
def test_statement_findings_equal_those_of_a_full_analysis(old, new, code):
    text, source = opened(BODY), BODY.replace(old, new)
    assert source != BODY
    assert typed(text, source)
    line = next(n for n, (a, b) in enumerate(zip(BODY.split("\n"), source.split("\n"), strict=True)) if a != b)
    near = range(line - 1, line + 2)
    whole = [to_lsp_diagnostic(finding, text.lines) for finding in analyse(source, text.path, 2, "nnef").findings]
    expected = [each for each in whole if each.range.start.line in near]
    found = [each for each in text.published if each.range.start.line in near]
    # Consequences of an error are found elsewhere in the whole text, not in the statement.
    assert {each.code for each in found} == {each.code for each in expected}
    if code != "NNEF0203":
        assert told(found) == told(expected)
    assert code is None or {each.code for each in found} == ({code} if code else set())
    assert bool(found) is (code != "")


def test_shapes_of_an_edited_statement_are_updated():
    text = opened(BODY)
    assert typed(text, BODY.replace("padding = [(1, 1), (1, 1)]", "padding = [(0, 0), (0, 0)]"))
    assert text.analysis.facts["h"] == "float32[1, 4, 6, 6]"
    assert text.analysis.facts["t"] == "float32[1, 4, 8, 8]"  # until the whole text is read


def test_findings_of_other_lines_move_with_their_lines():
    text = opened(BODY.replace("y = relu(a)", "y = rellu(a)"))
    ((_, line, *_),) = told(text.published)
    # Shapes are unknown in a text that was never valid.
    text.analysis = opened(BODY).analysis
    assert typed(text, "\n".join(text.lines).replace("    t = twice", "    s = tanh(h);\n    t = twice"))
    assert [each[:2] for each in told(text.published)] == [("NNEF0322", line + 1)]
    assert text.analysis.facts["s"] == "float32[1, 4, 8, 8]"
    assert typed(text, "\n".join(text.lines).replace("rellu", "relu"))
    assert text.published == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("b = a + a", "b = a - a", id="in a fragment"),
        pytest.param("graph net(x)", "graph net(z)", id="the heading of the graph"),
        pytest.param("version 1.0", "version 2.0", id="the version"),
        pytest.param("[1, 3, 8, 8]", "[1, 3, 9, 9]", id="an input"),
        pytest.param("    y = relu(a);\n}", "    y = relu(a);", id="a brace"),
        pytest.param("y = relu(a);", "y = relu(a)", id="the semicolon before it"),
    ],
)
def test_requests_for_the_whole_text_wait_for_it(old, new):
    assert old in BODY
    assert not typed(opened(BODY), BODY.replace(old, new))


def test_statement_among_5000_takes_less_than_100_ms():
    lines = ["version 1.0;", "", "graph large(x) -> (y)", "{", "    x = external(shape = [1, 8, 4, 4]);"]
    lines += ["    w = variable(shape = [8, 8, 3, 3], label = 'w');", "    h0 = relu(x);"]
    for number in range(1, 5000):
        made = f"relu(h{number - 1})" if number % 2 else f"conv(h{number - 1}, w, 0.0, padding = [(1, 1), (1, 1)])"
        lines.append(f"    h{number} = {made};")
    text = opened("\n".join([*lines, "    y = relu(h4999);", "}", ""]))
    spent: list[float] = []
    for line in range(1007, 1027, 2):
        right = "\n".join(text.lines)
        source = "\n".join([*text.lines[:line], text.lines[line].replace("relu", "rellu"), *text.lines[line + 1 :]])
        start = time.process_time()
        assert typed(text, source)
        spent.append(time.process_time() - start)
        assert [(each.code, each.range.start.line) for each in text.published] == [("NNEF0322", line)]
        assert typed(text, right)
        assert text.published == []
    assert sorted(spent)[5] < 0.1
