"""Differences between the inputs and outputs that two files declare: names, order, element types, open dims."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from graphport.comparison.pairs import originals
from graphport.core.dims import Symbolic, symbols
from graphport.ir.states import state_of
from graphport.runtimes.inputs import is_accepted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphport.core.dims import Dim
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
    """Differences between the interfaces of two files, except for the `allowed` aspects, which the user requested.

    Formats restrict names, types and dims; aspects that the format of `b` cannot declare do not count.
    """
    found: list[str] = []
    for noun in ("input", "output"):
        ours, others = _Ports(a, b, noun), _Ports(b, a, noun)
        pairs = _pairs(ours, others, noun)
        if "names" not in allowed:
            found += _differences_of_names(a, b, noun, (ours.names, others.names))
        for one, two in pairs:
            if "types" not in allowed:
                found += _difference_of_types(a, b, noun, (one, two))
            if "dims" not in allowed:
                found += _difference_of_dims(a, b, noun, (one, two))
    return found


def pairings(a: Side, b: Side) -> tuple[str, ...]:
    """Return phrases of the inputs and outputs of files of two formats that are paired by order because names differ.

    Names that differ only in characters that a format cannot declare count as equal.
    """
    if a.format == b.format or "" in {a.format, b.format}:
        return ()
    found: list[str] = []
    for noun in ("input", "output"):
        names, others = _Ports(a, b, noun).names, _Ports(b, a, noun).names
        plain = [[_normalize_name(name) for name in each] for each in (names, others)]
        if len(names) != len(others) or Counter(plain[0]) == Counter(plain[1]):
            continue
        renamed = [pair for pair, one, two in zip(zip(names, others, strict=True), *plain, strict=True) if one != two]
        found += [f"the {noun} '{name}' by its name ('{other}' in {b.label})" for name, other in renamed]
    return tuple(found)


def _normalize_name(name: str) -> str:
    """A name in lower case, without the index of a result, other characters than letters and digits replaced."""
    return re.sub(r"[^0-9a-z]+", "_", re.sub(r":0$", "", name).lower()).strip("_")


class _Ports:
    """Inputs or outputs of a file and their original names, without the states that a model keeps between runs.

    A format without variables declares the states of the `other` file as ordinary inputs and outputs, possibly renamed.
    """

    def __init__(self, side: Side, other: Side, noun: str) -> None:
        known = originals(side.graph)
        own, foreign = _named(side.graph, noun), _named(other.graph, noun)
        states = _states(side.graph, noun) | _states(other.graph, noun)
        at: set[int] = set()
        if len(own) == len(foreign):
            at = {index for index, value in enumerate(foreign) if value.name in states}
        kept = [
            (known.get(value.name, value.name), value)
            for index, value in enumerate(own)
            if index not in at and not states & {value.name, known.get(value.name)}
        ]
        self.names = [name for name, value in kept if noun == "output" or value.storage is None]
        self.values = [value for _, value in kept if noun == "output" or value.storage is None]


def _named(graph: Graph, noun: str) -> Sequence[Value]:
    return list(graph.inputs if noun == "input" else graph.outputs)


def _states(graph: Graph, noun: str) -> set[str]:
    """Names of the inputs that are states, or of the outputs that are only their next values."""
    states = {value.name: state for value in graph.inputs if (state := state_of(value)) is not None}
    return set(states) if noun == "input" else {state.output for state in states.values() if not state.is_returned}


def _pairs(ours: _Ports, others: _Ports, noun: str) -> list[tuple[Value, Value]]:
    """Pair inputs by name if the name sets are equal, else by position; pair outputs by position."""
    names = ours.names
    if noun == "input" and set(names) == set(others.names) and len(set(names)) == len(names):
        found = [others.values[others.names.index(name)] for name in names]
        return list(zip(ours.values, found, strict=True))
    return list(zip(ours.values, others.values, strict=False))


def _differences_of_names(a: Side, b: Side, noun: str, both: tuple[list[str], list[str]]) -> list[str]:
    names, others = both
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
    # One value may be several outputs: its name then has several positions.
    moved = [name for name in names if name in others and names[others.index(name)] != name]
    if len(names) == len(others) and moved:
        return [f"the {noun} {moved[0]} is at another position in {b.label}: {_listed(others)}"]
    return []


def _difference_of_types(a: Side, b: Side, noun: str, pair: tuple[Value, Value]) -> list[str]:
    one, two = (value.dtype for value in pair)
    if one is None or two is None or one is two or not {a.format, b.format} <= _TYPED:
        return []
    if a.format != b.format and _NARROWED.get(str(one)) == str(two):
        return []
    return [f"the {noun} {pair[0].name} is {one}, and {two} in {b.label}"]


def _difference_of_dims(a: Side, b: Side, noun: str, pair: tuple[Value, Value]) -> list[str]:
    if b.format not in _WITH_OPEN_DIMS:
        return []
    shapes = [value.shape for value in pair]
    one, two = shapes
    if one is None or two is None:
        return []
    if len(one) != len(two):
        return [f"the {noun} {pair[0].name} has {len(one)} dims, and {len(two)} in {b.label}"]
    fixed = [axis for axis, (m, n) in enumerate(zip(one, two, strict=True)) if isinstance(n, int) and m != n]
    if noun == "output":  # shape inference may find fewer dims in one file
        fixed = [axis for axis in fixed if isinstance(one[axis], int)]
    fixed = [axis for axis in fixed if not _has_one_size(a.graph, one[axis], two[axis])]
    if not fixed:
        return []
    return [f"the {noun} {pair[0].name} is {_shape(one)}, and {_shape(two)} in {b.label}"]


def _has_one_size(graph: Graph, dim: Dim, size: Dim) -> bool:
    """Whether a graph accepts only one size of an open dim, as a product with a constant matrix does."""
    if not isinstance(dim, Symbolic) or not isinstance(size, int) or len(names := symbols(dim)) != 1:
        return False
    (name,) = names
    return is_accepted(graph, {name: size}) and not is_accepted(graph, {name: size + 1})


def _shape(dims: Sequence[object]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
