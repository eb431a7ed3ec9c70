"""Nodes that two files state differently although no run showed an effect."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.element_digest import have_equal_elements
from graphport.core.storage import Storage
from graphport.ir.graph import walk
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.segments.matching import Match

    Pairs = list[tuple[Value | None, Value | None]]

_ROUNDING = 1e-6
"""Relative difference of two floats up to which one is the other, rounded or folded."""
_TINY = 1e-9
"""Magnitude of a scalar below which segments with a variance of 1e-8 do not show a change of 10 %."""
_MAX_RATIO = 100.0
"""Ratio up to which one such scalar replaces another: the square of an epsilon is none."""
_AXES = frozenset({"axis", "axes"})
_INERT = {("Resize", "nearest_mode"): ("mode", "nearest"), ("Resize", "cubic_coeff_a"): ("mode", "cubic")}
"""Attributes that have an effect only if another attribute has a value."""


def unseen_effects(match: Match, by_b: Mapping[Value, Match], *, is_one_format: bool) -> Iterator[str]:
    """Phrases of what differs between two nodes with corresponding operands, which free inputs cannot exercise.

    Integer attributes, and operators on integers, which often are sizes, may differ only for sizes or indices that no
    test input has; floats, such as an epsilon of 1e-12, only for elements too small to compare.

    Args:
        match: results of two nodes whose elements agree in every run.
        by_b: the matches by the value of the second graph.
        is_one_format: whether the files have one format; of two formats, only modes (strings) and floats count, as
            writers encode equal sizes and axes in different ways.
    """
    a, b = match.a.producer, match.b.producer
    if a is None or b is None:
        return
    name = a.name or match.a.name
    if a.op == b.op == "Constant" or not _have_common_operands(a, b, by_b):
        pairs: Pairs = [(match.a, match.b)] if a.op == "Constant" else _other_operands(a, b, by_b)
        if a.op == b.op and _differ_in_numbers(pairs):
            yield f"the effect of another constant at '{name}'"
        return
    if a.op != b.op:
        if is_one_format and all(_is_integer(value) for value in (*a.operands, match.a)):
            yield f"the effect of {b.op} instead of {a.op} at '{name}'"
        return
    for attribute, value in _differing_attributes(a, b):
        if is_one_format or isinstance(value, str | float):
            yield f"the effect of another {attribute} at '{name}'"


def changed_epsilons(a: Graph, b: Graph) -> Iterator[str]:
    """Yield phrases of tiny scalars (epsilons) of `a` that have another value in `b`, with no visible effect."""
    of_a, of_b = ({each for each in _floats(graph) if 0 < abs(each) < _TINY} for graph in (a, b))
    for x in sorted(of_a):
        if any(isclose(x, y, rel_tol=_ROUNDING) for y in of_b):
            continue
        for y in sorted(of_b):
            is_own = not any(isclose(y, each, rel_tol=_ROUNDING) for each in of_a)
            if is_own and 1 / _MAX_RATIO < y / x < _MAX_RATIO:
                yield f"the effect of {y:.4g} instead of {x:.4g}"


def _floats(graph: Graph) -> Iterator[float]:
    """The floating-point scalars and attributes of a graph."""
    for inner in walk(graph):
        for value in inner.values():
            if (number := _number(value)) is not None:
                yield number
        for node in inner:
            yield from (each for each in node.stated.values() if isinstance(each, float))


def _is_integer(value: Value) -> bool:
    return value.dtype is not None and (value.dtype.is_integer or value.dtype is DType.BOOL)


def _have_common_operands(a: Node, b: Node, by_b: Mapping[Value, Match]) -> bool:
    if len(a.inputs) != len(b.inputs):
        return False
    return all(_is_common(x, y, by_b) for x, y in zip(a.inputs, b.inputs, strict=True))


def _other_operands(a: Node, b: Node, by_b: Mapping[Value, Match]) -> Pairs:
    """Return the operand pairs that are not matched values; empty for different operand counts."""
    pairs = list(zip(a.inputs, b.inputs, strict=False)) if len(a.inputs) == len(b.inputs) else []
    return [(x, y) for x, y in pairs if not _is_common(x, y, by_b)]


def _differ_in_numbers(pairs: Pairs) -> bool:
    """Whether all pairs are scalars that differ by more than rounding."""
    numbers = [(_number(x), _number(y)) for x, y in pairs]
    return bool(numbers) and all(
        x is not None and y is not None and not isclose(x, y, rel_tol=_ROUNDING) for x, y in numbers
    )


def _number(value: Value | None) -> float | None:
    """The element of a floating-point scalar."""
    if value is None:
        return None
    node = value.producer
    stored = value.storage if node is None or node.op != "Constant" else node.attributes.get("value")
    if isinstance(stored, Storage) and stored.count == 1 and stored.dtype.kind == "f":
        return float(stored.numpy().reshape(()))
    return None


def _is_common(x: Value | None, y: Value | None, by_b: Mapping[Value, Match]) -> bool:
    if x is None or y is None:
        return x is y
    match = by_b.get(y)
    if match is not None:
        return match.a is x
    if x.storage is None or y.storage is None or x.storage.shape != y.storage.shape or x.dtype is not y.dtype:
        return False
    return have_equal_elements(x.storage, y.storage)


def _differing_attributes(a: Node, b: Node) -> Iterator[tuple[str, Any]]:
    of_a, of_b = _attributes(a), _attributes(b)
    for name in dict.fromkeys((*of_a, *of_b)):
        x, y = of_a.get(name), of_b.get(name)
        if x == y or type(x) is not type(y) or not isinstance(x, bool | int | float | str | tuple):
            continue
        if isinstance(x, float) and isinstance(y, float) and isclose(x, y, rel_tol=_ROUNDING):
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
    op_def = registry.op_defs().get(node.op)
    keywords = {} if op_def is None else op_def.signature.keywords
    found: dict[str, Any] = {name: keyword.default for name, keyword in keywords.items() if not keyword.is_required}
    return found | dict(node.stated)


def _positive(axes: int | tuple[int, ...], rank: int) -> list[int]:
    return [axis % rank for axis in ((axes,) if isinstance(axes, int) else axes)]
