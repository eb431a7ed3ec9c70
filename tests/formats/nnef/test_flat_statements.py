from __future__ import annotations

import pytest
from hypothesis import given, settings

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.flat_statements import FlatStatements
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.printer import to_text
from graphport.formats.nnef.container.syntax import Call
from tests.draws import times
from tests.formats.nnef.documents import final, provisional, tree
from tests.formats.nnef.trees import documents


def places(document):
    """Every place of the statements, by walking all slots."""
    found, waiting = [], list(document.graph.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting += node
        elif hasattr(node, "start"):
            kind = "Call" if isinstance(node, Call) else type(node).__name__
            found.append((kind, node.start, node.stop))
            waiting += [getattr(node, name) for name in type(node).__match_args__ if name != "source"]
    return found


@given(documents(flat=True))
@settings(max_examples=times(50))
def test_the_short_way_reads_what_the_general_parser_reads(document):
    source = Source("model.nnef", to_text(document))
    short = parse(source, document.edition)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlatStatements, "read", lambda _self, offset, _body: offset)
        general = parse(source, document.edition)
    assert short.document == general.document == document
    assert places(short.document) == places(general.document)


def flat(text: str) -> list[bool]:
    graph = tree(text).graph
    assert graph is not None
    return [statement.is_flat for statement in graph.body]


@pytest.mark.parametrize(
    "statement",
    [
        "y = relu(x);",
        "y  =\trelu ( x ) ;",
        "a, b = moments(x, axes = [0]);",
        "[a, b] = split(x, axis = 0, ratios = [1, 1]);",
        "y = external<integer>(shape = []);",
        "y = pad(x, padding = [(0, 1), (-1, 0)], value = -1.5e-3, border = 'constant');",
        "y = concat([a, b], axis = 1);",
        "y = f(true, k = false);",
    ],
)
def test_flat_statements_take_the_short_way(statement):
    assert flat(final(statement)) == [True, True]


@pytest.mark.parametrize(
    "statement",
    [
        "y = relu(relu(x));",
        "y = relu(x) + x;",
        "y = relu(-x);",
        "y = f(x, a = [1 + 1]);",
        "y = f(x, a = [[1]]);",
        "y = relu(x # comment\n);",
        "y = f(x, a = (1, 2));",
        "(a, b) = moments(x, axes = [0]);",
    ],
)
def test_other_statements_do_not(statement):
    assert flat(final(statement)) == [True, False]


def test_comments_between_statements_do_not_matter():
    assert flat(final("# one", "y = relu(x); # two")) == [True, True]


def test_without_semicolons_a_statement_ends_before_the_next():
    assert flat(provisional("[a, b] = split(x, axis = 0, ratios = [1, 1])", "y = relu(a)")) == [True, True, True]
    assert flat(provisional("y = relu(x); # semicolon here, not there\n")) == [True, True]


def test_without_semicolons_an_expression_may_go_on():
    assert flat(provisional("y = relu(x)\n + x")) == [True, False]
    assert flat(provisional("y = relu(x)\n if true else x")) == [True, False]


def test_the_provisional_edition_has_no_flat_minus():
    assert flat(provisional("y = leaky_relu(x, alpha = -1.0)")) == [True, False]
