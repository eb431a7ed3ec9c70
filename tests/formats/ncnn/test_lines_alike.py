"""The cached parse of lines that differ only in names equals a separate parse, for any content."""

from __future__ import annotations

import random

from graphport.core.diagnostics import DiagnosticError
from graphport.core.storage import Storage
from graphport.formats.ncnn import read, write
from graphport.formats.ncnn.container import reader
from graphport.ir import rewrite
from graphport.ir.verify import verify

LAYERS = (
    ("ReLU", 1, 1, ""),
    ("ReLU", 1, 1, "0=1.000000e-01"),
    ("ReLU", 1, 1, "0=1"),
    ("ReLU", 1, 1, "0=1.0"),
    ("Softmax", 1, 1, "0=0 1=1"),
    ("Split", 1, 2, ""),
    ("Split", 1, 2, "-23330=8,3,4,4,2,3,4,4,2"),
    ("Pooling", 1, 1, "0=0 1=3 -23330=4,3,4,4,2"),
    ("BinaryOp", 2, 1, "0=0"),
    ("BinaryOp", 1, 1, "0=0 1=1 2=2.000000e+00"),
    ("Scale", 1, 1, "0=2 1=1"),
    ("Concat", 3, 1, "0=0"),
    ("Noop", 1, 0, ""),
    ("MemoryData", 0, 1, "0=4"),
    ("ReLU", 1, 1, "broken"),
    ("ReLU", 1, 1, "77=1"),
)


def text(seed: int, wrong: float) -> str:
    """Some layers, of which a share may be wrong."""
    draw = random.Random(seed)
    kinds = draw.sample(LAYERS if draw.random() < wrong else LAYERS[:-2], 5)
    lines, names = ["Input x 0 1 x 0=4 1=4 2=2"], ["x"]
    for number in range(60):
        op_type, taken, given, tail = draw.choice(kinds)
        made = [draw.choice(names) if draw.random() < wrong / 200 else f"v{number}_{index}" for index in range(given)]
        made = made[:1] * given if draw.random() < wrong / 100 else made
        read_ = [draw.choice(names[-4:]) for _ in range(taken)]
        read_ = ["nobody"] * taken if draw.random() < wrong / 100 else read_
        counts = f"{taken} {given + (draw.random() < wrong / 200)}"
        lines.append(" ".join(filter(None, [op_type, f"n{number}", counts, *read_, *made, tail])))
        names += made
    return f"7767517\n{len(lines) - (draw.random() < wrong / 10)} {len(names)}\n" + "\n".join(lines) + "\n"


def stated(node):
    """Return the attributes, with the bytes of weights."""
    return {name: x.numpy().tobytes() if isinstance(x, Storage) else x for name, x in node.attributes.items()}


def told(path):
    """Return all results of reading: nodes and values with notes and locations, and findings."""
    try:
        graph, findings = read(path)
    except DiagnosticError as error:
        return [(each.code, each.message, str(each.span)) for each in error.diagnostics]
    verify(graph)
    nodes = [
        (node.op, node.name, repr(stated(node)), [x.name for x in node.operands], node.notes, str(node.origin))
        for node in graph
    ]
    values = [(value.name, value.fact, value.notes, str(value.origin), value.returns) for value in graph.values()]
    return nodes, values, [(each.code, each.message, str(each.span)) for each in findings]


def test_lines_like_one_before_are_read_as_each_alone(tmp_path, monkeypatch):
    place, quick = tmp_path / "a.param", reader._GraphReader._repeat_layer
    (tmp_path / "a.bin").write_bytes(bytes(60 * 16))
    again = []

    def counted(self, number, words):
        again.append(quick(self, number, words))
        return again[-1]

    clean = 0
    for seed in range(120):
        place.write_text(text(seed, seed % 3 / 2))
        with monkeypatch.context() as patch:
            patch.setattr(reader._GraphReader, "_repeat_layer", counted)
            one = told(place)
        with monkeypatch.context() as patch:
            patch.setattr(reader._GraphReader, "_repeat_layer", lambda *_: False)
            assert one == told(place), seed
        clean += isinstance(one, tuple)
    assert clean > 25
    assert sum(again) > 800


def test_what_was_read_is_written_as_it_was_from_a_copy_and_after_its_places_were_requested(tmp_path):
    place = tmp_path / "a.param"
    lines = ["Input x 0 1 x 0=4 1=4 2=2", "Split s 1 2 x a b", "ReLU r 1 1 a c 0=1.000000e-01", "Input y 0 1 y"]
    lines += ["ReLU r 1 1 b d 0=1.000000e-01", "BinaryOp add 2 1 c d e 0=0", "Concat all 2 1 e y z 0=0"]
    place.write_text(f"7767517\n{len(lines)} 8\n" + "\n".join(lines) + "\n")
    (tmp_path / "a.bin").write_bytes(b"")
    graph, _ = read(place)
    twin = rewrite.copy(graph)
    for node in twin:
        assert node.origin.line > 3
    for each in (graph, twin):
        write(each, tmp_path / "b.param")
        words = [line.split() for line in (tmp_path / "b.param").read_text().splitlines()]
        assert words == [line.split() for line in place.read_text().splitlines()]
