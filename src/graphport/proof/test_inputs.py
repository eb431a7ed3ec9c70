"""Test inputs: sizes for open dims, and values of several kinds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic, evaluate, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import walk
from graphport.ir.states import is_flag, waiting
from graphport.proof.integer_ranges import integer_range, is_coordinate, range_operand
from graphport.runtimes.inputs import free_sizes, has_comparable_results, is_accepted, open_axes, other_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphport.ir.graph import Graph, Value

    Sizes = dict[str, int]

KINDS = ("normal", "edges", "integers")
"""Floats of N(0, 1) and integers of their valid range; zeros, ones, small and large values of both signs, and the ends
of integer ranges; floats of N(0, 9), and other integers."""

LARGEST, MODEST = 3.0, 1.0
"""Exponents of ten of the largest magnitude, and of the largest one if results overflow."""

_ODD = (7, 5, 9, 11, 13, 3)
_BATCH = 3
_NARROW = 16
_MOST_TRIED = 8
"""Further sizes that are tried if the first ones do not run."""


@dataclass(frozen=True, eq=False)
class TestInput:
    """Arrays by the names of the inputs of the first side."""

    __test__: ClassVar[bool] = False  # pytest would collect a class of this name
    kind: str
    seed: int
    sizes: Sizes
    arrays: dict[str, Any]

    @property
    def label(self) -> str:
        """Name for people, unique within a proof."""
        stated = ", ".join(f"{name}={length}" for name, length in self.sizes.items())
        return f"{self.kind} ({stated})" if stated else self.kind

    def as_json(self) -> dict[str, Any]:
        """Plain data from which it can be reproduced."""
        shapes = {name: list(np.shape(array)) for name, array in self.arrays.items() if hasattr(array, "shape")}
        return {"kind": self.kind, "seed": self.seed, "sizes": self.sizes, "shapes": shapes}


def choices_of_sizes(graph: Graph, fixed: Sizes) -> list[list[Sizes]]:
    """Two choices of sizes, each with alternatives, the best first; one empty choice if no dim is open.

    Args:
        graph: the first side, whose inputs have the open axes.
        fixed: symbols whose lengths the second side fixes.

    Raises:
        DiagnosticError: RUN0009 no lengths suit.
    """
    ones, other = open_axes(graph)
    free = [name for name in (*ones, *other) if name not in fixed]
    if not free:
        return [[dict(fixed)]]
    usual = {**free_sizes(graph), **fixed}
    least = dict.fromkeys(free, 1) | fixed
    odd = dict(zip(other, _lengths(len(other)), strict=True))
    same = dict.fromkeys(other, _ODD[0])
    twice = {name: 3 * length for name, length in usual.items() if name in other}
    batch = dict.fromkeys(ones, _BATCH)
    second = [{**usual, **batch, **odd}, {**usual, **batch, **same}, {**usual, **batch, **twice}]
    second += [{**usual, **batch}, {**usual, **odd}, {**usual, **twice}]
    return [_different([least, usual], fixed), _different([*second, usual], fixed)]


def accepted(graph: Graph, choices: list[Sizes], related: Iterable[Sizes] = ()) -> Iterator[Sizes]:
    """Yield the sizes that shape inference accepts, and the last of `choices` in any case, then other sizes.

    They are the `related` sizes, searched on demand, and further candidates. Sizes for which a result is empty prove
    nothing and are tried at the end.
    """
    *first, last = choices
    empty: list[Sizes] = []
    for sizes in first:
        if is_accepted(graph, sizes):
            if has_comparable_results(graph, sizes):
                yield sizes
            else:
                empty.append(sizes)
    for sizes in chain([last], related):
        if not sizes or has_comparable_results(graph, sizes):
            yield sizes
        else:
            empty.append(sizes)
    if last:
        yield from islice(other_sizes(graph), _MOST_TRIED)
    yield from empty


def _lengths(count: int) -> list[int]:
    return [_ODD[index % len(_ODD)] for index in range(count)]


def _different(choices: list[Sizes], fixed: Sizes) -> list[Sizes]:
    found: list[Sizes] = []
    for sizes in choices:
        whole = {**sizes, **fixed}
        if whole not in found:
            found.append(whole)
    return found


def make_test_input(graph: Graph, kind: str, sizes: Sizes, seed: int, largest: float = LARGEST) -> TestInput:
    """Values of a kind for all inputs of `graph`, with exponents of ten up to `largest`.

    Raises:
        DiagnosticError: RUN0009 an input has unknown rank or is no tensor.
    """
    random = np.random.default_rng(seed)
    if any(node.op == "LRN" for inner in walk(graph) for node in inner):
        # ONNX Runtime adds and subtracts squares along the channels: small ones vanish next to large ones.
        largest = min(largest, MODEST)
    numbers = graph.extents.evaluate_symbols(sizes)
    arrays: dict[str, Any] = {}
    # The first test input starts with the initial states; further test inputs start with random states.
    begun = waiting(graph) if kind != KINDS[0] else set[str]()
    for value in graph.inputs:
        if begun and is_flag(value):
            arrays[value.name] = np.ones((), np.bool_)
            continue
        if value.storage is not None and value.name not in begun:
            arrays[value.name] = value.storage.numpy()
            continue
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
            message = f"cannot generate an input for {value.name!r}: {fact}"
            raise DiagnosticError(Diagnostic("RUN0009", message, value.origin, "give inputs, or bind its shape"))
        arrays[value.name] = _random_array(
            value, fact.dtype, extents(value, numbers), _How(kind, numbers, random, largest)
        )
    return TestInput(kind, seed, sizes, arrays)


def extents(value: Value, sizes: Sizes) -> list[int]:
    """Return the shape of an input of known rank at `sizes`."""
    dims = value.fact.shape or () if isinstance(value.fact, TensorFact) else ()
    return [evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim for dim in dims]


def bytes_of_inputs(graph: Graph, sizes: Sizes) -> int:
    """Bytes of all inputs."""
    known = [value for value in graph.inputs if isinstance(value.fact, TensorFact) and value.fact.shape is not None]
    numbers = graph.extents.evaluate_symbols(sizes)
    return sum(prod(extents(value, numbers)) * _itemsize(value) for value in known)


def _itemsize(value: Value) -> int:
    dtype = value.dtype
    return 8 if dtype is None or not dtype.bits else max(dtype.bits // 8, 1)


def bound_by(graph: Graph, other: Mapping[str, Value]) -> Sizes:
    """Sizes of open dims of `graph` that are fixed in the inputs of another side, by the names of its inputs."""
    found: Sizes = {}
    for value in graph.inputs:
        twin = other.get(value.name)
        if twin is None or not isinstance(twin.fact, TensorFact) or not isinstance(value.fact, TensorFact):
            continue
        for dim, length in zip(value.fact.shape or (), twin.fact.shape or (), strict=False):
            if not isinstance(dim, Symbolic) or not isinstance(length, int) or dim not in symbols(dim).values():
                continue
            (name,) = symbols(dim)
            if name not in graph.extents.definitions:
                found[name] = length
    return found


class _How(NamedTuple):
    kind: str
    sizes: Sizes
    random: np.random.Generator
    largest: float


def _random_array(value: Value, dtype: DType, shape: list[int], how: _How) -> Any:
    kind, sizes, random, _ = how
    if dtype.kind == "b":
        return random.random(shape) < {"normal": 0.5, "edges": 2.0, "integers": 0.8}[kind]
    if dtype is DType.STRING:
        texts = np.array(["a", "", "Zürich 7"] if kind == "edges" else ["a", "b", "3"], object)
        return texts[random.integers(0, len(texts), shape)]
    if dtype.is_integer:
        return _integers(kind, random, shape, integer_range(value, sizes)).astype(dtype.numpy)
    whole = range_operand(value) if dtype.kind == "f" else None
    if whole is not None:
        return random.integers(whole.low, whole.high, shape).astype(dtype.numpy)
    if kind == "edges" and is_coordinate(value):
        how = how._replace(kind="normal")
    if dtype.kind == "c":
        return (_random_floats(how, shape, dtype) + 1j * _random_floats(how, shape, dtype)).astype(dtype.numpy)
    found = _random_floats(how, shape, dtype).astype(dtype.numpy)
    # Formats without float64 receive equal values.
    return found.astype(np.float32).astype(np.float64) if dtype is DType.FLOAT64 else found


def _integers(kind: str, random: np.random.Generator, shape: list[int], allowed: Any) -> Any:
    low, high, is_data, is_divisor = allowed
    if kind == "normal" and is_data and not is_divisor and (low, high) == (-9, 10):
        return random.integers(0, 2, shape)
    found = random.integers(low, high, shape)
    if kind == "edges":
        ends = np.array([low, high - 1])
        found = np.where(random.random(shape) < 0.5, ends[random.integers(0, 2, shape)], found)
        return np.where(found == 0, 1, found) if is_divisor else found
    # Its result may be a divisor.
    return np.where(found == 0, 1, found) if is_data else found


def _random_floats(how: _How, shape: list[int], dtype: DType) -> Any:
    kind, _, random, largest = how
    normal = np.asarray(random.normal(size=shape))
    if kind != "edges":
        return np.multiply(normal, 1.0 if kind == "normal" else 3.0, out=normal)
    most = min(largest, 1.5) if dtype.bits <= _NARROW else largest
    # The operations reuse the array: float64 arrays may be large.
    large = np.sign(normal, out=normal)
    powers = np.asarray(random.uniform(-most, most, shape))
    large *= np.power(10.0, powers, out=powers)
    del powers
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0])[random.integers(0, 6, shape)]
    np.copyto(large, special, where=random.random(shape) < 0.25)
    return large
