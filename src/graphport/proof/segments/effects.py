"""Nodes that two files state differently although no run showed an effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.ops import registry
from graphport.proof.segments.numbering import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.ir.graph import Node, Value
    from graphport.proof.segments.matching import Match

_AXES = frozenset({"axis", "axes"})
_INERT = {("Resize", "nearest_mode"): ("mode", "nearest"), ("Resize", "cubic_coeff_a"): ("mode", "cubic")}
"""Attributes that have an effect only if another attribute has a value."""


def unseen_effects(match: Match, by_b: Mapping[Value, Match], *, is_one_format: bool) -> Iterator[str]:
    """Phrases of what differs between two nodes with corresponding operands, which free inputs cannot exercise.

    Float attributes are exercised by the elements of a segment; other attributes, and operators on integers, which
    often are sizes, may differ only for sizes or indices that no test input has.

    Args:
        match: results of two nodes whose elements agree in every run.
        by_b: the matches by the value of the second graph.
        is_one_format: whether the files have one format; of two formats, only modes (strings) count, as writers encode
            equal sizes and axes in different ways.
    """
    a, b = match.a.producer, match.b.producer
    if a is None or b is None or not _have_common_operands(a, b, by_b):
        return
    name = a.name or match.a.name
    if a.op != b.op:
        if is_one_format and all(_is_integer(value) for value in (*a.operands, match.a)):
            yield f"the effect of {b.op} instead of {a.op} at '{name}'"
        return
    for attribute, value in _differing_attributes(a, b):
        if is_one_format or isinstance(value, str):
            yield f"the effect of another {attribute} at '{name}'"


def _is_integer(value: Value) -> bool:
    return value.dtype is not None and (value.dtype.is_integer or value.dtype is DType.BOOL)


def _have_common_operands(a: Node, b: Node, by_b: Mapping[Value, Match]) -> bool:
    if len(a.inputs) != len(b.inputs):
        return False
    return all(_is_common(x, y, by_b) for x, y in zip(a.inputs, b.inputs, strict=True))


def _is_common(x: Value | None, y: Value | None, by_b: Mapping[Value, Match]) -> bool:
    if x is None or y is None:
        return x is y
    match = by_b.get(y)
    if match is not None:
        return match.a is x
    if x.storage is None or y.storage is None or x.storage.shape != y.storage.shape or x.dtype is not y.dtype:
        return False
    return x.storage is y.storage or digest(x.storage) == digest(y.storage)


def _differing_attributes(a: Node, b: Node) -> Iterator[tuple[str, Any]]:
    of_a, of_b = _attributes(a), _attributes(b)
    for name in dict.fromkeys((*of_a, *of_b)):
        x, y = of_a.get(name), of_b.get(name)
        if x == y or type(x) is not type(y) or not isinstance(x, bool | int | str | tuple):
            continue
        other, value = _INERT.get((a.op, name), ("", None))
        if other and of_a.get(other) != value:
            continue
        rank = None if a.operands[0].shape is None else len(a.operands[0].shape)
        if name in _AXES and rank and _positive(of_a[name], rank) == _positive(of_b[name], rank):
            continue
        yield name, x


def _attributes(node: Node) -> dict[str, Any]:
    """Attributes of a node with the defaults of its operator."""
    page = registry.pages().get(node.op)
    keywords = {} if page is None else page.signature.keywords
    found: dict[str, Any] = {name: keyword.default for name, keyword in keywords.items() if not keyword.is_required}
    return found | dict(node.stated)


def _positive(axes: int | tuple[int, ...], rank: int) -> list[int]:
    return [axis % rank for axis in ((axes,) if isinstance(axes, int) else axes)]
