from __future__ import annotations

from graphport.core.diagnostics import Source, Span
from graphport.formats.nnef.container.operation import Operation, Origin, Tensor, tensors

SOURCE = Source("model.nnef", "a\nb\nc\nd\ne\nf\n")


def nested(levels: int) -> Origin:
    origin = Origin(Span(SOURCE, 0, 1))
    for level in range(1, levels):
        origin = origin.within(f"f{level}", Span(SOURCE, 2 * level, 2 * level + 1))
    return origin


def test_an_origin_tells_the_calls_from_the_innermost():
    assert nested(1).route() is None
    assert nested(3).route() == "in fragment 'f2', called from line 2, in fragment 'f1', called from line 1"
    assert [span.line for span in nested(3).spans()] == [3, 2, 1]


def test_many_calls_are_cut_short():
    assert str(nested(6).route()).endswith("in fragment 'f3', called from line 3, … 2 calls further out, from line 1")


def test_operands_are_walked_in_order():
    a, b, c = Tensor("scalar", "a"), Tensor("scalar", "b"), Tensor("scalar", literal=1.0)
    operation = Operation("f", None, {"x": a, "y": ((b, c), a)}, {}, ((c,), b), nested(1), None)
    assert [*operation.inputs()] == [a, b, c, a]
    assert [*operation.outputs()] == [c, b]
    assert [*tensors(a)] == [a]
    assert operation.span_of("x") is operation.origin.span


def test_long_chains_show_themselves_shallowly():
    operation = Operation("relu", None, {}, {}, (), nested(1), None)
    for _ in range(10_000):
        tensor = Tensor("scalar", "y", producer=operation)
        operation = Operation("relu", None, {"x": tensor}, {}, (), nested(1), None)
    assert len(repr(operation)) + len(repr(nested(6))) < 300
