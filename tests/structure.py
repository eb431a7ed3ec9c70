"""Structural equality of graphs, with the first difference."""

from __future__ import annotations

import struct
from typing import Any

from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.ir.graph import Graph, Node, Value, walk


def assert_same(one: Graph, two: Graph, *, with_notes: bool = True) -> None:
    """Assert that both have equal content, field by field, in the same order, elements bit for bit.

    Args:
        one: a graph or body.
        two: another one; values from outside of both are identical.
        with_notes: whether origins and notes are compared, too.
    """
    bodies = list(zip(walk(one), walk(two), strict=True))
    twins: dict[Any, Any] = dict(bodies)
    for a, b in bodies:
        assert (a.name, a.opsets, len(a)) == (b.name, b.opsets, len(b))
        assert list(a.opsets) == list(b.opsets)
        assert not with_notes or (a.origin, a.notes) == (b.origin, b.notes)
        for x, y in zip(a.values(), b.values(), strict=True):
            twins[x] = y
            assert_same_value(x, y, with_notes=with_notes)
    for a, b in bodies:
        assert (a is one) == (b is two)
        assert a is one or twins[a.parent] is b.parent
        assert [twins.get(value, value) for value in a.outputs] == b.outputs
        for n, m in zip(a, b, strict=True):
            twins[n] = m
            assert_same_node(n, m, twins, with_notes=with_notes)


def assert_same_value(x: Value, y: Value, *, with_notes: bool) -> None:
    assert (x.name, x.fact) == (y.name, y.fact)
    assert (x.is_input, x.is_constant, x.is_literal) == (y.is_input, y.is_constant, y.is_literal)
    assert_same_attribute(x.storage, y.storage, {})
    assert not with_notes or (x.origin, x.notes) == (y.origin, y.notes)


def assert_same_node(n: Node, m: Node, twins: dict[Any, Any], *, with_notes: bool) -> None:
    assert (n.op_type, n.dialect, n.name) == (m.op_type, m.dialect, m.name)
    assert not with_notes or (n.origin, n.notes) == (m.origin, m.notes)
    assert [value and twins.get(value, value) for value in n.inputs] == list(m.inputs)
    assert [value and twins[value] for value in n.outputs] == list(m.outputs)
    assert list(n.attributes) == list(m.attributes)
    for left, right in zip(n.attributes.values(), m.attributes.values(), strict=True):
        assert_same_attribute(left, right, twins)


def assert_same_attribute(one: Any, two: Any, twins: dict[Any, Any]) -> None:
    """Assert that both have one type and are equal, or that `twins` maps one to the other."""
    pending = [(one, two)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, Storage):
            assert isinstance(b, Storage)
            assert (a.dtype, a.shape, bits(a)) == (b.dtype, b.shape, bits(b))
            continue
        assert type(a) is type(b)
        match a:
            case Graph():
                assert twins[a] is b
            case tuple():
                pending += zip(a, b, strict=True)
            case float():
                assert struct.pack("d", a) == struct.pack("d", b)
            case complex():
                assert struct.pack("dd", a.real, a.imag) == struct.pack("dd", b.real, b.imag)
            case _:
                assert a == b


def bits(storage: Storage) -> object:
    """Return the elements in a form that is equal only if all bits are."""
    if storage.dtype is DType.STRING:
        return [(type(text), text) for text in storage.numpy().reshape(-1).tolist()]
    return b"".join(bytes(piece) for piece in storage.chunks())
