"""Differences between the inputs and outputs that two files declare: names, order, element types, open dims."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from graphport.comparison.pairs import originals
from graphport.core.facts import TensorFact
from graphport.ir.states import state_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphport.core.dtypes import DType
    from graphport.ir.graph import Graph, Value
    from graphport.proof.side import Side

    Aspect = Literal["names", "types", "dims"]

ASPECTS: tuple[Aspect, ...] = ("names", "types", "dims")

_TYPED = frozenset({"", "onnx", "openvino", "tflite", "archive"})
"""Formats that declare the element types of inputs and outputs; a model in memory has no format."""
_WITH_OPEN_DIMS = _TYPED | {"nnef"}
"""Formats that declare which dims are open, the first included."""
_NARROWED = {"float64": "float32", "int64": "int32", "uint64": "uint32"}
"""Types that formats without them are written with."""


def interface_differences(a: Side, b: Side, allowed: Collection[Aspect] = ()) -> list[str]:
    """What differs between the interfaces of two files, except for the `allowed` aspects, which the user asked for.

    Formats restrict names, types and dims; what the format of `b` cannot declare is no difference.
    """
    found: list[str] = []
    for noun in ("input", "output"):
        pairs = _pairs(a, b, noun)
        if "names" not in allowed:
            found += _differences_of_names(a, b, noun)
        for one, two in pairs:
            if "types" not in allowed:
                found += _difference_of_types(a, b, noun, (one, two))
            if "dims" not in allowed:
                found += _difference_of_dims(b, noun, (one, two))
    return found


def _ports(graph: Graph, noun: str) -> list[Value]:
    """Inputs or outputs, without the states that a model keeps between runs."""
    if noun == "input":
        return [value for value in graph.inputs if value.storage is None and state_of(value) is None]
    states = {state.output for value in graph.inputs if (state := state_of(value)) is not None}
    return [value for value in graph.outputs if value.name not in states]


def _names(side: Side, noun: str) -> list[str]:
    known = originals(side.graph)
    return [known.get(value.name, value.name) for value in _ports(side.graph, noun)]


def _pairs(a: Side, b: Side, noun: str) -> list[tuple[Value, Value]]:
    """Inputs of one name, else of one position; outputs of one position."""
    ours, others = _ports(a.graph, noun), _ports(b.graph, noun)
    if noun == "input":
        names, theirs = _names(a, noun), _names(b, noun)
        if set(names) == set(theirs) and len(set(names)) == len(names):
            return [(value, others[theirs.index(name)]) for value, name in zip(ours, names, strict=True)]
    return list(zip(ours, others, strict=False))


def _differences_of_names(a: Side, b: Side, noun: str) -> list[str]:
    names, others = _names(a, noun), _names(b, noun)
    if names == others:
        return []
    if Counter(names) == Counter(others):
        return [f"the {noun}s {_listed(names)} are in another order in {b.label}: {_listed(others)}"]
    if noun == "output" and len(names) != len(others):
        return [f"{a.label} has the outputs {_listed(names)}, {b.label} has {_listed(others)}"]
    if a.format == b.format != "":
        missing = [name for name in names if name not in others]
        unused = {value.name for value in a.graph.inputs if not value.uses and not value.is_output}
        missing = [name for name in missing if noun == "output" or name not in unused]
        return [f"{b.label} has no {noun} {_listed(missing)}, only {_listed(others)}"] if missing else []
    moved = [name for at, name in enumerate(names) if name in others and others.index(name) != at]
    if len(names) == len(others) and moved:
        return [f"the {noun} {moved[0]} is at another position in {b.label}: {_listed(others)}"]
    return []


def _difference_of_types(a: Side, b: Side, noun: str, pair: tuple[Value, Value]) -> list[str]:
    one, two = (_dtype(value) for value in pair)
    if one is None or two is None or one is two or not {a.format, b.format} <= _TYPED:
        return []
    if a.format != b.format and _NARROWED.get(str(one)) == str(two):
        return []
    return [f"the {noun} {pair[0].name} is {one}, and {two} in {b.label}"]


def _dtype(value: Value) -> DType | None:
    return value.fact.dtype if isinstance(value.fact, TensorFact) else None


def _difference_of_dims(b: Side, noun: str, pair: tuple[Value, Value]) -> list[str]:
    if b.format not in _WITH_OPEN_DIMS:
        return []
    shapes = [value.shape for value in pair]
    one, two = shapes
    if one is None or two is None:
        return []
    if len(one) != len(two):
        return [f"the {noun} {pair[0].name} has {len(one)} dims, and {len(two)} in {b.label}"]
    fixed = [axis for axis, (m, n) in enumerate(zip(one, two, strict=True)) if isinstance(n, int) and m != n]
    if noun == "output":  # shape inference may know less of one file than of the other
        fixed = [axis for axis in fixed if isinstance(one[axis], int)]
    if not fixed:
        return []
    return [f"the {noun} {pair[0].name} is {_shape(one)}, and {_shape(two)} in {b.label}"]


def _shape(dims: Sequence[object]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
