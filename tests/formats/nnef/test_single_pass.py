"""The single-pass reader of flat texts gives the result of the separate stages, which report all errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.files import nnef_text

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.nnef import read
from graphport.formats.nnef.container import reader
from graphport.formats.nnef.container.expand import Expander
from graphport.formats.nnef.container.original_text import original_of
from graphport.formats.nnef.container.packaging import write_container
from graphport.formats.nnef.container.tensors import Payload, tensor_file
from graphport.ir.text import to_text
from graphport.ir.verify import verify

BODY = """
    x = external<scalar>(shape = [2, 4, 6, 6]);
    l = external<logical>(shape = [2, 4, 6, 6]);
    i = external<integer>(shape = [3]);
    v = variable<scalar>(shape = [4, 4, 3, 3], label = 'block/v');  # a comment; with a semicolon
    w = variable<scalar>(shape = [4, 4, 3, 3], label = 'block/w') ;
    again = variable<scalar>(shape = [4, 4, 3, 3], label = 'block/w');
    k = variable<scalar>(shape = [1, 4], label = 'k');
    w2 = variable(shape = [4, 4, 3, 3], label = 'w2');
    w3 = variable(shape = [4, 4, 3, 3], label = 'w3');
    j = variable<integer>(shape = [3], label = "j");
    j2 = variable<integer>(shape = [3], label = 'j2');
    j3 = variable<integer>(shape = [3], label = 'j3');
    a = conv(x, v, 0.0, padding = [(1, 1), (1, 1)], stride = [1, 1], dilation = [], groups = 1);
    b = conv(a, w, 0.0, padding = [(1, 1), (1, 1)], stride = [1, 1], dilation = [], groups = 1) ;
    c = conv( b , again , 0.0, padding = [(1, 1), (1, 1)], stride = [1, 1], dilation = [], groups = 1);
    d = batch_normalization(c, k, k, k, k, epsilon = 1e-5);
    e = batch_normalization(d, k, k, k, k, epsilon = 1e-5);
    f = relu(d); g = relu(
        e);
    h = add(f, g);
    m = add(h, h);
    n = copy(i);
    o = copy(j);
    p = copy(j2);
    q = copy(j3);
    p2 = unsqueeze(p, axes = [0]);
    q2 = unsqueeze(q, axes = [0]);
    r = add(m, 2.0);
    s = add(r, 2.0);
    t = not(l);
    u = not(t);
    y, z = moments(s, axes = [2, 3]);
    y2, z2 = moments(s, axes = [2, 3]);
    [aa, ab] = split(s, axis = 1, ratios = [1, 1]);
    ac = concat([aa, ab], axis = 1);
    ad = constant<scalar>(shape = [2], value = [1.0, -0.0]);
    ae = copy(i);
    af = transpose(ac, axes = [0, 2, 3, 1]);
"""
HEAD = "version 1.0;\nextension KHR_enable_operator_expressions;\n\n# a head\ngraph net( l, x, i ) -> ( af, y, z2, p2, q2, u )\n"
TEXT = f"{HEAD}{{{BODY}}}\n"
ARRAYS = {
    "block/v": np.arange(144, dtype=np.float32).reshape(4, 4, 3, 3),
    "block/w": np.ones((4, 4, 3, 3), np.float32),
    "w2": np.ones((4, 4, 3, 3), np.float32),
    "w3": np.zeros((4, 4, 3, 3), np.float32),
    "k": np.array([[-0.0, 1.0, 0.0, 2.0]], np.float32),
    "j": np.array([1, 2, 3]),
    "j2": np.array([4, 5, 6]),
    "j3": np.array([4, 5, 7]),
}
DTYPES = {"f": DType.FLOAT32, "i": DType.INT64}


def folder(path: Path, text: str) -> Path:
    files = {"graph.nnef": Payload(len(text.encode()), lambda: iter([text.encode()]))}
    for label, array in ARRAYS.items():
        files[f"{label}.dat"] = tensor_file(storage_of(array, DTYPES[array.dtype.kind]), label)
    write_container(path, files)
    return path


def told(path: Path, **options: Any) -> list[Any]:
    """Return all content of a model: its text, locations, and findings."""
    try:
        model = gp.load(path, **options)
    except DiagnosticError as error:
        return [[str(each), _place(each.span), each.help] for each in error.diagnostics]
    verify(model.graph)
    values = [
        (
            value.name,
            str(value.fact),
            _place(value.origin),
            value.is_literal,
            dict(value.notes) if value.has_notes else 0,
        )
        for value in model.graph.values()
    ]
    nodes = [(node.op, _place(node.origin), node.has_notes) for node in model.graph]
    return [to_text(model.graph), values, nodes, [str(each) for each in model.findings], model.versions]


def _place(span: Any) -> Any:
    return None if span is None else (span.start, span.stop, span.place)


def by_stages(monkeypatch: pytest.MonkeyPatch, path: Path, **options: Any) -> list[Any]:
    with monkeypatch.context() as patch:
        patch.setattr(reader, "read_flat", lambda *_: None)
        return told(path, **options)


def is_one_pass(path: Path, **options: Any) -> bool:
    graph, _ = read(path, **options)
    original = original_of(graph)
    return original is not None and original.has_facts


@pytest.mark.parametrize("raw", [True, False])
def test_it_makes_what_the_stages_make(monkeypatch, tmp_path, raw):
    (tmp_path / "text.nnef").write_text(TEXT)
    for path in (tmp_path / "text.nnef", folder(tmp_path / "model", TEXT)):
        assert is_one_pass(path)
        assert told(path, raw=raw) == by_stages(monkeypatch, path, raw=raw)


def test_a_long_text_is_read_as_by_stages(monkeypatch, tmp_path):
    (tmp_path / "long.nnef").write_text(nnef_text(300))
    assert is_one_pass(tmp_path / "long.nnef")
    assert told(tmp_path / "long.nnef") == by_stages(monkeypatch, tmp_path / "long.nnef")


def changed(draw: random.Random) -> Iterator[str]:
    """Yield the text with one random change of a line."""
    lines = BODY.splitlines()
    for _ in range(60):
        found = list(lines)
        at, other = draw.randrange(1, len(found)), draw.randrange(1, len(found))
        match draw.randrange(6):
            case 0:
                found[at], found[other] = found[other], found[at]
            case 1:
                found.insert(at, found[other])
            case 2:
                del found[at]
            case 3:
                place = draw.randrange(len(found[at]))
                found[at] = found[at][:place] + draw.choice("aw01(),;=[]<>'\".- #{}vi") + found[at][place + 1 :]
            case 4:
                found[at] = found[at].replace("4", "5", 1)
            case _:
                found[at] = found[at].replace("1", "2", 1)
        body = "\n".join(found)
        yield f"{HEAD}{{{body}}}\n"


def test_whatever_is_done_to_a_text_is_reported_as_by_stages(monkeypatch, tmp_path):
    path, count = tmp_path / "changed.nnef", 0
    for text in changed(random.Random(5)):
        path.write_text(text)
        found = told(path)
        count += isinstance(found[0], str)
        assert found == by_stages(monkeypatch, path), text
    assert 10 < count < 50


OTHERS = {
    "a label whose case differs": ("'block/w');", "'block/W');"),
    "a label of another shape": ("[4, 4, 3, 3], label = 'block/w')", "[4, 4, 3, 3, 1], label = 'block/w')"),
    "a name of an input": ("    c = conv(", "    x = conv("),
    "a name twice": ("    c = conv(", "    b = conv("),
    "a keyword": ("    b = conv(", "    if = conv("),
    "a name that comes later": ("conv(a, w", "conv(c, w"),
    "an input that nobody makes": ("( l, x, i )", "( l, x, i, more )"),
    "an input twice": ("( l, x, i )", "( l, x, i, i )"),
    "an output that nobody makes": ("( af, y", "( af, more, y"),
    "an input that is an output": ("( af, y", "( x, y"),
    "a variable that is updated": ("    t = not(l);", "    t = not(l); t2 = update(v, w);"),
    "an operation that nobody knows": ("    t = not(l);", "    t = not(l); t2 = unknown(l);"),
    "an expression": ("    r = add(m, 2.0);", "    r = m + 2.0;"),
    "a tensor by name": ("relu(d)", "relu(x = d)"),
    "something behind the graph": ("1]);\n}", "1]);\n} graph"),
    "no end": ("1]);\n}", "1]);\n"),
    "another extension": ("extension KHR_enable_operator_expressions", "extension KHR_enable_others"),
    "another version": ("version 1.0;", "version 1.1;"),
    "a label that points outside of the folder": ("'block/w');", "'../w');"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_plain_is_left_to_the_stages(monkeypatch, tmp_path, name):
    old, new = OTHERS[name]
    assert old in TEXT
    path = tmp_path / "other.nnef"
    path.write_text(TEXT.replace(old, new))
    assert told(path) == by_stages(monkeypatch, path)


def test_numbers_are_reported_of_once(monkeypatch, tmp_path):
    path = folder(tmp_path / "model", TEXT)
    (path / "k.dat").unlink()
    (path / "j.dat").write_bytes(b"nothing")
    found = told(path)
    assert found == by_stages(monkeypatch, path)
    assert [each[0].partition(":")[0] for each in found]
    assert len(found) == 2


def test_it_makes_no_more_than_is_allowed(monkeypatch, tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(TEXT)
    monkeypatch.setattr(Expander, "allows", lambda _self, operations: operations < 10)
    assert not is_one_pass(path)
    monkeypatch.setattr(Expander, "allows", lambda _self, operations: operations < 30)
    assert is_one_pass(path)


def test_extents_that_are_bound_and_open(monkeypatch, tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(TEXT)
    for shapes in ({"x": [2, 4, 6, 6]}, {"x": [3, 4, 6, 6]}, {"x": ["N", 4, 6, 6]}, {"a": [1]}):
        assert told(path, shapes=shapes) == by_stages(monkeypatch, path, shapes=shapes)


def test_the_document_is_there_for_who_asks(tmp_path):
    (tmp_path / "text.nnef").write_text(TEXT)
    model = gp.load(tmp_path / "text.nnef", raw=True)
    original = original_of(model.graph)
    assert original is not None
    assert not original.declared_operations
    variables = [value for value in model.graph.constants if not value.is_literal]
    assert str(original.edition) == "final"
    graph = original.checked.document.graph
    assert graph is not None
    assert len(graph.body) == len(list(model.graph)) + len(model.graph.inputs) + len(variables)
    gp.save(model, tmp_path / "written.nnef")
    assert (tmp_path / "written.nnef").read_text() == TEXT
