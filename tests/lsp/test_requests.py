"""Requests of an editor: rename, signature help, folding, symbols, and texts with mistakes."""

from __future__ import annotations

import re

import pytest

import graphport as gp
from graphport.lsp.diagnostics import analyse
from graphport.lsp.nnef_tokens import TokenIndex
from graphport.lsp.rename import RenameError, check_name, find_occurrences
from tests.lsp.json_rpc import Failed, opened

URI = "file:///nowhere/graph.nnef"
DOCUMENT = {"uri": URI}
TEXT = """version 1.0;
extension KHR_enable_fragment_definitions;

# The two lines of
# a comment.
fragment twice(
    a: tensor<scalar>,
    factor: scalar = 2.0 )
-> ( b: tensor<scalar> )
{
    b = mul(a, factor);
}

graph net(x) -> (y)
{
    x = external<scalar>(shape = [1, 3, 8, 8]);
    w = variable<scalar>(shape = [4, 3, 3, 3], label = 'w');
    h = conv(x, w, 0.0,
             padding = [(1, 1), (1, 1)]);
    t = twice(h, factor = 3.0);
    y = relu(t);
}
"""


def at(words: str, over: int = 0, text: str = TEXT) -> dict[str, int]:
    """The position of `words` in a text."""
    before = text[: text.index(words) + over]
    return {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}


def edited(text: str, edits: list[dict]) -> str:
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda e: (e["range"]["start"]["line"], -e["range"]["start"]["character"])):
        start, end = edit["range"]["start"], edit["range"]["end"]
        line = lines[start["line"]]
        lines[start["line"]] = line[: start["character"]] + edit["newText"] + line[end["character"] :]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def client():
    with opened(URI, TEXT) as client:
        assert client.findings(1) == []
        yield client


def rename(client, words: str, name: str, over: int = 0):
    return client.request(
        "textDocument/rename", {"textDocument": DOCUMENT, "position": at(words, over), "newName": name}
    )


@pytest.mark.parametrize(
    ("words", "name", "message"),
    [
        pytest.param("h = conv", "w", "'w' is already a name, in line 17", id="another value"),
        pytest.param("h = conv", "x", "'x' is already a name, in line 16", id="an input, whose line is that of `external`"),
        pytest.param("h = conv", "tensor", "'tensor' is a keyword of NNEF", id="a keyword"),
        pytest.param("h = conv", "2h", "'2h' is not an identifier", id="a digit first"),
        pytest.param("h = conv", "h-1", "'h-1' is not an identifier", id="a hyphen"),
        pytest.param("h = conv", "", "'' is not an identifier", id="nothing"),
        pytest.param("h = conv", "größe", "'größe' is not an identifier", id="letters beyond ASCII"),
        pytest.param("a: tensor", "factor", "'factor' is already a name, in line 8", id="another parameter"),
        pytest.param("twice(\n", "conv", "'conv' is a standard operation", id="an operation"),
        pytest.param("conv(x", "convolution", "no name that this document declares", id="of a standard operation"),
        pytest.param("padding =", "pads", "no name that this document declares", id="of a parameter of the standard"),
        pytest.param("version", "v", "no name that this document declares", id="of a keyword"),
    ],
)  # fmt: skip
def test_rename_to_an_invalid_name_is_an_error(client, words, name, message):
    with pytest.raises(Failed, match=re.escape(message)) as failed:
        rename(client, words, name)
    assert failed.value.code == -32803  # RequestFailed


@pytest.mark.parametrize(
    ("words", "name", "places"),
    [
        pytest.param("h = conv", "hidden", 2, id="a value"),
        pytest.param("twice(\n", "double", 2, id="a fragment"),
        pytest.param("factor: scalar", "k", 3, id="a parameter, with the call that names it"),
        pytest.param("factor = 3.0", "k", 3, id="a parameter at its call"),
        pytest.param("y = relu", "net", 2, id="the name of the graph is free"),
        pytest.param("y = relu", "conv", 2, id="names of operations are free for values"),
    ],
)
def test_a_renamed_text_is_valid_and_computes_equal_results(client, words, name, places):
    edits = rename(client, words, name)["changes"][URI]
    assert len(edits) == places
    text = edited(TEXT, edits)
    assert gp.check(text.encode(), format="nnef") == []
    assert gp.load(text.encode(), format="nnef").shapes().keys() >= {"x", "w"}


def test_no_rename_that_is_allowed_adds_an_error():
    tokens = TokenIndex()
    tokens.update(TEXT.split("\n"))
    names = {each.token.text for each in tokens if each.token.text.isidentifier()} | {"fresh", "lengthof", "extent"}
    done = 0
    for place in tokens:
        found = find_occurrences(tokens, place)
        for name in sorted(names - {place.token.text}) if found and place.token.declares else ():
            try:
                check_name(tokens, found[0], name)
            except RenameError:
                continue
            lines = TEXT.split("\n")
            for each in sorted(found, key=lambda p: (p.line, -p.token.start)):
                line = lines[each.line]
                lines[each.line] = line[: each.token.start] + name + line[each.token.stop :]
            assert gp.check("\n".join(lines).encode(), format="nnef") == [], (place, name)
            done += 1
    assert done > 50


def test_a_renamed_value_keeps_its_quantization(tmp_path):
    (tmp_path / "graph.quant").write_text('"x": linear_quantize(min = 0.0, max = 1.0, bits = 8);\n"h": f(a = "h");\n')
    uri = (tmp_path / "graph.nnef").as_uri()
    with opened(uri, TEXT) as client:
        params = {"textDocument": {"uri": uri}, "position": at("h = conv"), "newName": "hidden"}
        changes = client.request("textDocument/rename", params)["changes"]
    beside = (tmp_path / "graph.quant").as_uri()
    assert [(e["newText"], e["range"]["start"]) for e in changes[beside]] == [("hidden", {"line": 1, "character": 1})]


@pytest.mark.parametrize(
    ("words", "over", "begin", "active"),
    [
        pytest.param("conv(x", 5, "fragment conv", 0, id="the first operand"),
        pytest.param("conv(x, w", 9, "fragment conv", 1, id="the second operand"),
        pytest.param("padding = [(1, 1), (1", 21, "fragment conv", 4, id="a named one, within brackets, a line below"),
        pytest.param("twice(h, f", 10, "fragment twice( a: tensor<scalar>, factor: scalar", 1, id="of the document"),
        pytest.param("external<scalar>(", 17, "fragment external", 0, id="of a generic operation"),
    ],
)
def test_signature_help_marks_the_parameter_at_the_cursor(client, words, over, begin, active):
    params = {"textDocument": DOCUMENT, "position": at(words, over)}
    found = client.request("textDocument/signatureHelp", params)
    (signature,) = found["signatures"]
    assert signature["label"].startswith(begin)
    assert found["activeParameter"] == active
    assert all(parameter["label"] in signature["label"] for parameter in signature["parameters"])


def test_there_is_no_signature_outside_of_calls(client):
    for words in ("h = conv", "a: tensor", "version"):
        params = {"textDocument": DOCUMENT, "position": at(words)}
        assert client.request("textDocument/signatureHelp", params) is None


def test_symbols_are_nested_in_fragments_and_the_graph(client):
    twice, net = client.request("textDocument/documentSymbol", {"textDocument": DOCUMENT})
    assert (twice["name"], [child["name"] for child in twice["children"]]) == ("twice", ["a", "factor", "b"])
    assert (net["name"], [child["name"] for child in net["children"]]) == ("net", ["x", "w", "h", "t", "y"])
    h = net["children"][2]
    assert h["detail"] == "float32[1, 4, 8, 8]"
    assert h["range"] == {"start": at("h = conv"), "end": at("(1, 1)]);", 9)}
    assert h["selectionRange"] == {"start": at("h = conv"), "end": at("h = conv", 1)}


def test_folds_are_bodies_statements_and_comments(client):
    found = client.request("textDocument/foldingRange", {"textDocument": DOCUMENT})
    lines = sorted((each["startLine"], each["endLine"], each.get("kind")) for each in found)
    assert lines == [(3, 4, "comment"), (5, 10, None), (13, 20, None), (17, 18, None)]


MISTAKES = [
    pytest.param("relu(t)", "rellu(t)", {"x", "w", "h", "t"}, id="no such operation"),
    pytest.param("relu(t)", "relu(t", {"x", "w", "h", "t"}, id="an open parenthesis"),
    pytest.param("factor = 3.0);", "factor = 3.0)", {"x", "w", "h"}, id="no semicolon"),
    pytest.param("(1, 1)]", "(1, 1]", {"x", "w"}, id="an open pair"),
    pytest.param("padding = [(1, 1), (1, 1)]", "groups = 2", {"x", "w"}, id="a shape that does not fit"),
    pytest.param("b = mul(a, factor)", "b = mul(a, fctor)", {"x", "w", "h"}, id="in a fragment"),
    pytest.param("-> (y)", "-> (z)", {"x", "w", "h", "t", "y"}, id="an output that is not assigned"),
    pytest.param("graph net(x)", "graph net(x,)", {"x", "w", "h", "t", "y"}, id="in the head of the graph"),
    pytest.param("relu(t);\n}", "relu(t);\n", {"x", "w", "h", "t", "y"}, id="no brace at the end"),
    pytest.param("conv(x, w, 0.0", "conv(q, w, 0.0", {"x", "w"}, id="no such value"),
    pytest.param("variable<scalar>(shape = [4", "variable<scalar>(shap = [4", {"x"}, id="no such parameter"),
    pytest.param("h = conv(x", "h = (conv(x", {"x", "w"}, id="one parenthesis too many"),
]


@pytest.mark.parametrize(("right", "wrong", "known"), MISTAKES)
def test_values_that_do_not_depend_on_a_mistake_have_shapes(right, wrong, known):
    assert TEXT.count(right) == 1
    found = analyse(TEXT.replace(right, wrong), "/graph.nnef", 1, "nnef")
    assert any(finding.is_error for finding in found.findings)
    whole = analyse(TEXT, "/graph.nnef", 1, "nnef").facts
    assert {name: fact for name, fact in found.facts.items() if name.isidentifier()} == {n: whole[n] for n in known}


def test_values_after_a_mistake_that_do_not_depend_on_it_have_shapes():
    text = TEXT.replace("y = relu(t);", "z = rellu(x); y = relu(t);\n    v = relu(z);")
    found = analyse(text, "/graph.nnef", 1, "nnef")
    assert found.facts == analyse(TEXT, "/graph.nnef", 1, "nnef").facts


def test_a_text_opened_with_a_mistake_has_hints_and_hovers():
    text = TEXT.replace("relu(t)", "rellu(t)")
    with opened(URI, text) as client:
        assert [finding["code"] for finding in client.findings(1)] == ["NNEF0322"]
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 30, "character": 0}}
        hints = client.request("textDocument/inlayHint", {"textDocument": DOCUMENT, "range": everything})
        assert [hint["label"] for hint in hints] == [
            ": float32[1, 3, 8, 8]", ": float32[4, 3, 3, 3]", ": float32[1, 4, 8, 8]", ": float32[1, 4, 8, 8]",
        ]  # fmt: skip
        hover = client.request("textDocument/hover", {"textDocument": DOCUMENT, "position": at("t = twice", 0, text)})
        assert "`float32[1, 4, 8, 8]`" in hover["contents"]["value"]
        symbols = client.request("textDocument/documentSymbol", {"textDocument": DOCUMENT})
        assert [child["detail"] for child in symbols[1]["children"]][-1] == ""
