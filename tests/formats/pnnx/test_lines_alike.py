"""The cached parse of lines that differ only in names and shapes equals a separate parse, for any content."""

from __future__ import annotations

import random
import zipfile

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.core.storage import Storage
from graphport.formats.pnnx import read, write
from graphport.formats.pnnx.container import reader
from graphport.ir import rewrite
from graphport.ir.verify import verify

TAILS = (
    ("nn.ReLU", 1, ""),
    ("nn.Softmax", 1, "dim=1"),
    ("nn.Softmax", 1, "dim=-1"),
    ("F.relu", 1, "$input={0}"),
    ("F.relu", 1, "$input=elsewhere"),
    ("F.relu", 1, "#early=(1)f32 $input={0}"),
    ("F.sigmoid", 1, "$self={0} approximate=none"),
    ("Tensor.reshape", 1, "shape=(2,2)"),
    ("F.leaky_relu", 1, "negative_slope=1.000000e-01 $input={0}"),
    ("nn.Linear", 1, "bias=False in_features=4 out_features=4 @weight=(4,4)f32"),
    ("pnnx.Expression", 1, "expr=floor_divide(@0,2)"),
    ("pnnx.Expression", 1, "expr=add(@0,@1)"),
    ("pnnx.Expression", 2, "expr=add(@0,@1)"),
    ("pnnx.Expression", 2, "expr=div(@0,@1)"),
    ("torch.matmul", 2, "$input={0} $other={1}"),
    ("torch.matmul", 2, "$other={1} $input={0}"),
    ("torch.cat", 2, "dim=0"),
    ("torch.cat", 3, "dim=0"),
    ("prim::TupleConstruct", 2, ""),
    ("nn.ReLU", 1, "broken"),
    ("nn.ReLU", 1, "#={0} dim==2"),
)
SHAPES = ("(1,4)f32", "(1,4)i64", "(1,4)f16", "(2,?)f32", "(4)f32", "(1,4)nothing", "")


def text(seed: int, wrong: float) -> str:
    """Some lines, of which a share may be wrong."""
    draw = random.Random(seed)
    tails = draw.sample(TAILS, 5)
    shapes = draw.sample(SHAPES, 3) if draw.random() < wrong else draw.sample(SHAPES[:5], 2)
    lines, names = ["pnnx.Input in 0 1 x #x=(1,4)f32"], ["x"]
    for number in range(60):
        op_type, taken, tail = draw.choice(tails)
        given = [draw.choice(names[-4:]) for _ in range(taken)]
        name = draw.choice(names) if draw.random() < wrong / 100 else f"v{number}"
        name += "=" if draw.random() < wrong / 50 else ""
        shape = draw.choice(shapes)
        ends = [f"#{value}={shape}" for value in [*given, *[name] * draw.choice((0, 1, 1, 1, 2))] if shape]
        words = [op_type, f"n{number}", str(taken), "1", *given, name, tail.format(*given), *ends]
        lines.append(" ".join(op_type for op_type in words if op_type))
        names.append(name)
    lines.append(f"pnnx.Output out 1 0 {names[-1]}")
    return f"7767517\n{len(lines)} {len(set(names)) - (draw.random() < wrong / 10)}\n" + "\n".join(lines) + "\n"


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
    values = [(value.name, value.fact, value.notes, str(value.origin)) for value in graph.values()]
    return nodes, values, graph.notes, [(each.code, each.message, str(each.span)) for each in findings]


def test_lines_like_one_before_are_read_as_each_alone(tmp_path, monkeypatch):
    place, quick = tmp_path / "a.pnnx.param", reader._GraphReader._repeat_operator
    with zipfile.ZipFile(tmp_path / "a.pnnx.bin", "w") as archive:
        for number in range(60):
            archive.writestr(f"n{number}.weight", bytes(64))
    again = []

    def counted(self, index, words):
        again.append(quick(self, index, words))
        return again[-1]

    clean = 0
    for seed in range(120):
        place.write_text(text(seed, seed % 3 / 2))
        with monkeypatch.context() as patch:
            patch.setattr(reader._GraphReader, "_repeat_operator", counted)
            one = told(place)
        with monkeypatch.context() as patch:
            patch.setattr(reader._GraphReader, "_repeat_operator", lambda *_: False)
            assert one == told(place), seed
        clean += isinstance(one, tuple)
    assert clean > 25
    assert sum(again) > 800


def test_what_was_read_is_written_as_it_was_from_a_copy_and_after_its_places_were_requested(tmp_path):
    place = tmp_path / "a.pnnx.param"
    lines = ["pnnx.Input in 0 1 x #x=(1,4)f32", "pnnx.Attribute w 0 1 w @data=(1,4)f32 #w=(1,4)f32"]
    lines += ["pnnx.Expression s 2 1 x w a expr=add(@0,@1) #x=(1,4)f32 #w=(1,4)f32 #a=(1,4)f32"]
    lines += [f"nn.ReLU r{n} 1 1 {'a' if n == 1 else f'r{n - 1}'} r{n} #r{n}=(1,4)f32" for n in (1, 2)]
    lines += ["pnnx.Input later 0 1 y #y=(1,4)f32", "pnnx.Output o 1 0 r2 #r2=(1,4)f32", "pnnx.Output p 1 0 y"]
    stated = f"7767517\n{len(lines)} 6\n" + "\n".join(lines) + "\n"
    place.write_text(stated)
    with zipfile.ZipFile(tmp_path / "a.pnnx.bin", "w") as archive:
        archive.writestr("w.data", bytes(16))
    graph, _ = read(place)
    twin = rewrite.copy(graph)
    for node in twin:
        assert node.origin.line > 2
    for each in (graph, twin):
        write(each, tmp_path / "b.pnnx.param")
        words = [line.split() for line in (tmp_path / "b.pnnx.param").read_text().splitlines()]
        assert [line[:5] for line in words] == [line.split()[:5] for line in stated.splitlines()]
    assert all(node.note("pnnx.line") is other.note("pnnx.line") for node, other in zip(graph, twin, strict=True))


def test_the_only_weight_of_an_attribute_is_its_value_whatever_its_name(tmp_path):
    place = tmp_path / "a.pnnx.param"
    lines = ["pnnx.Input in 0 1 x #x=(1,4)f32", "pnnx.Attribute bn 0 1 w @running_var=(4)f32 #w=(4)f32"]
    lines += ["pnnx.Expression s 2 1 x w a expr=add(@0,@1) #a=(1,4)f32", "pnnx.Output o 1 0 a"]
    place.write_text(f"7767517\n{len(lines)} 3\n" + "\n".join(lines) + "\n")
    with zipfile.ZipFile(tmp_path / "a.pnnx.bin", "w") as archive:
        archive.writestr("bn.running_var", np.arange(4, dtype=np.float32).tobytes())
    graph, findings = read(place)
    assert not findings
    (weight,) = graph.constants
    assert weight.storage is not None
    assert weight.storage.numpy().tolist() == [0, 1, 2, 3]
