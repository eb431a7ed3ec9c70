"""Operations created from the pattern of a repeated call equal those created separately."""

from __future__ import annotations

import pytest

import graphport as gp
from graphport.core.diagnostics import Source
from graphport.formats.nnef import read
from graphport.formats.nnef.container.call_patterns import Patterns
from graphport.formats.nnef.container.call_text import FlatCall
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.propagation import Propagation

BODY = """
    x = external(shape = [2, 4, 6, 6]);
    l = external<logical>(shape = [2, 4, 6, 6]);
    v = variable(shape = [4, 4, 3, 3], label = 'v');
    w = variable(shape = [4, 4, 3, 3], label = 'w');
    k = variable(shape = [2, 4, 1, 1], label = 'k');
    a = conv(x, v, 0.0, padding = [(1, 1), (1, 1)]);
    b = conv(a, w, 0.0, padding = [(1, 1), (1, 1)]);
    c = conv(b, k, 0.0, padding = [(1, 1), (1, 1)]);
    d = relu(c);
    e = relu(b);
    f = relu( b );
    g = add(a, b);
    h = add(a, e);
    i = add(h, 2.0);
    j = add(i, 2.0);
    m = copy(x);
    n = copy(l);
    o = copy(m);
    p = copy(n);
    q = transpose(e, axes = [0, 2, 3, 1]);
    r = transpose(f, axes = [0, 2, 3, 1]);
    s = max_reduce(r, axes = [3]);  # a comment; with a semicolon
    t = max_reduce(q, axes = [3]);
    (u, z) = moments(q, axes = [3]);
    aa = pad(x, padding = [(0, 0), (0, 0), (1, 1), (1, 1)], border = 'a;b');
"""


def expanded(text: str, *, infers: bool = True):
    document = parse(Source("repeated.nnef", text)).document
    expansion = expand(check(document), infer=Propagation() if infers else None)
    found = [
        (
            operation.name,
            operation.generic,
            [(tensor.name, tensor.data, tensor.literal, str(tensor.fact)) for tensor in operation.inputs()],
            list(operation.operands),
            operation.attributes,
            [(tensor.name, tensor.data, str(tensor.fact), tensor.order) for tensor in operation.outputs()],
            str(operation.origin.span),
        )
        for operation in expansion.operations
    ]
    return found, [str(finding) for finding in expansion.diagnostics], expansion.operations


def text(body: str, outputs: str) -> str:
    return f"version 1.0;\ngraph net( x, l ) -> ( {outputs} )\n{{{body}}}\n"


@pytest.mark.parametrize("infers", [True, False])
@pytest.mark.parametrize("outputs", ["d, j, p, s", "o, t, u"])
def test_patterns_make_what_is_made_one_by_one(monkeypatch, outputs, infers):
    document = text(BODY.replace("'a;b'", "'constant'"), outputs)
    found, findings, operations = expanded(document, infers=infers)
    assert sum(operation.pattern is not None for operation in operations) >= 7
    monkeypatch.setattr(Patterns, "of", lambda *_: None)
    plain, others, apart = expanded(document, infers=infers)
    assert found == plain
    assert findings == others
    assert all(operation.pattern is None for operation in apart)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("e = relu(b)", "e = relu(nowhere)"),
        ("h = add(a, e)", "h = add(a, v)"),
        ("p = copy(n)", "p = relu(n)"),
        ("r = transpose(f, axes = [0, 2, 3, 1])", "r = transpose(s, axes = [0, 2, 3, 1])"),
        ("c = conv(b, k", "c = conv(k, b"),
    ],
)
def test_faults_are_reported_where_they_were(monkeypatch, old, new):
    document = text(BODY.replace("'a;b'", "'constant'").replace(old, new), "d, j, p, s")

    def told() -> list[str]:
        parsed = parse(Source("repeated.nnef", document))
        checked = check(parsed.document)
        findings = [*parsed.diagnostics, *checked.diagnostics]
        if not any(finding.is_error for finding in findings):
            findings += expand(checked, infer=Propagation()).diagnostics
        return [f"{finding.code} {finding.message} {finding.span}" for finding in findings]

    found = told()
    assert found
    monkeypatch.setattr(Patterns, "of", lambda *_: None)
    monkeypatch.setattr(
        "graphport.formats.nnef.container.flat_statements.FlatStatements.read", lambda _self, offset, _body: offset
    )
    assert told() == found


def test_graphs_are_the_same(monkeypatch, tmp_path):
    (tmp_path / "net.nnef").write_text(text(BODY.replace("'a;b'", "'constant'"), "d, j, p, s"))
    graph, _ = read(tmp_path / "net.nnef")
    first = str(gp.load(tmp_path / "net.nnef", raw=True).graph)
    assert len(list(graph)) == 20
    monkeypatch.setattr(Patterns, "of", lambda *_: None)
    assert str(gp.load(tmp_path / "net.nnef", raw=True).graph) == first


def test_arguments_of_a_form_are_read_with_their_locations():
    source = Source("repeated.nnef", text(BODY, "d"))
    graph = parse(source).document.graph
    assert graph is not None
    calls = [statement.value for statement in graph.body if isinstance(statement.value, FlatCall)]
    assert len({call.form for call in calls if call.name == "conv"}) == 1
    for call in calls:
        assert source.text is not None
        assert source.text[call.start : call.stop].startswith(call.name)
        assert source.text[call.start : call.stop].endswith(")")
        for argument in call.arguments:
            shown = source.text[argument.start : argument.stop]
            assert argument.name is None or shown.startswith(argument.name)
            assert shown.endswith(source.text[argument.value.start : argument.value.stop])
