"""Test inputs that a search tries: values that operators ask for, sizes, and values that reach a part of a graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbolic, symbols
from graphport.core.facts import TensorFact
from graphport.ir.graph import walk
from graphport.proof.coverage import values
from graphport.proof.coverage.influence import Setting, constant_of, input_of, solve, step_of
from graphport.proof.integer_ranges import integer_range, is_coordinate
from graphport.proof.side import paired
from graphport.proof.test_inputs import bytes_of_inputs, extents, make_test_input
from graphport.runtimes import memory
from graphport.runtimes.inputs import is_accepted, open_axes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.ir.graph import Graph, Value
    from graphport.proof.coverage.parts import CoveragePoint

    Chosen = tuple[str, values.Make, bool]

MAX_BYTES = 1 << 26
"""Bytes of inputs of a candidate."""
MAX_HELD = 1 << 29
"""Bytes of the arrays of a run of a candidate."""
MAX_LENGTH = 4096
"""Largest size of an open dim in a candidate: a loop over it takes that many iterations."""
LARGEST_LIMIT = 1e30
"""Magnitude from which a limit is treated as infinite: no score reaches it."""
SEEDS = 6
"""Further draws of N(0, 1)."""
MAX_LIMITS = 24
"""Limits of a graph that inputs are brought to."""
WAYS = (("", (-1, 0, 1)), (", above", (1,)), (", below", (-1,)), (", exactly", (0,)))
"""Signs of the distances from the numbers of a setting, used in turn for the elements."""
APART = (("", (0,)), (", above", (1,)), (", below", (-1,)))
"""`WAYS` for numbers that are next to a limit already."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Arrays by the names of the inputs of the first graph."""

    label: str
    sizes: dict[str, int]
    arrays: dict[str, Any]
    is_special: bool = False
    """Whether only differences of both readings count: values on which runtimes may legitimately differ."""


@dataclass(frozen=True, eq=False)
class Names:
    """Inputs and open dims of another graph by the names that the first graph has for them."""

    inputs: dict[str, str]
    sizes: dict[str, str]

    @classmethod
    def match_inputs(cls, a: Graph, b: Graph) -> Names:
        """Map input names of `b` to input names of `a`, as `paired` matches them."""
        twins: dict[str, Value] = paired({value.name: value for value in a.inputs}, a, b)
        others = {value.name: value for value in b.inputs}
        sizes: dict[str, str] = {}
        for name, value in twins.items():
            if name not in others:
                continue
            for dim, other in zip(value.shape or (), others[name].shape or (), strict=False):
                if isinstance(dim, Symbolic) and isinstance(other, Symbolic) and len(symbols(other)) == 1:
                    sizes.setdefault(next(iter(symbols(other))), next(iter(symbols(dim))))
        return cls({name: value.name for name, value in twins.items()}, sizes)

    def renamed(self, setting: Setting) -> Setting:
        """Translate a setting of the second graph to the input names of the first."""
        inputs = {self.inputs.get(name, name): numbers for name, numbers in setting.inputs.items()}
        return Setting(inputs, {self.sizes.get(name, name): size for name, size in setting.sizes.items()})


def differing_candidates(a: Graph, b: Graph, sizes: dict[str, int], names: Names) -> Iterator[Candidate]:
    """Yield values on which two graphs that agree on ordinary values may differ, most promising first."""
    yield from candidates_by_kind(a, b, sizes, names)
    yield from _on_limits(a, a, sizes, Names({}, {}))
    yield from _on_limits(a, b, sizes, names)
    for seed in range(SEEDS):
        found = normal(a, sizes, seed=100 + seed)
        if found is not None:
            yield found
    yield from _rows_of_tables(a, b, sizes, names)


def _rows_of_tables(a: Graph, b: Graph, sizes: dict[str, int], names: Names) -> Iterator[Candidate]:
    """Yield index inputs that cover every row of a gathered table, input size by input size."""
    base = normal(a, sizes)
    if base is None:
        return
    for node in b:
        table = node.operands[0].storage if node.op == "Gather" else None
        source = input_of(node.operands[1]) if table is not None and node.attributes.get("axis", 0) == 0 else None
        name = "" if source is None else names.inputs.get(source.name, source.name)
        if table is None or name not in base.arrays:
            continue
        old = np.asarray(base.arrays[name])
        for start in range(0, table.shape[0] if old.size else 0, max(old.size, 1)):
            indices = np.arange(start, start + old.size) % table.shape[0]
            filled = indices.reshape(old.shape).astype(old.dtype)
            yield Candidate(f"rows of a table from {start} on", sizes, {**base.arrays, name: filled})


def normal(graph: Graph, sizes: dict[str, int], seed: int = 77) -> Candidate | None:
    """Return N(0, 1) arrays at some sizes; `None` if the sizes are too large or refused."""
    try:
        if max(sizes.values(), default=0) > MAX_LENGTH or bytes_of_inputs(graph, sizes) > MAX_BYTES:
            return None
        if memory.estimate_proof_bytes(graph, sizes) > MAX_HELD or (sizes and not is_accepted(graph, sizes)):
            return None
        made = make_test_input(graph, "normal", sizes, seed)
    except (DiagnosticError, KeyError, ValueError):
        return None
    return Candidate("normal", sizes, made.arrays)


def candidates_by_kind(a: Graph, b: Graph, sizes: dict[str, int], names: Names) -> Iterator[Candidate]:
    """Yield candidates of each kind of values: in all inputs at once, then in single inputs."""
    base = normal(a, sizes)
    if base is None:
        return
    twins = {names.inputs.get(value.name, value.name): value for value in b.inputs}
    numbers = a.extents.evaluate_symbols(sizes)
    by_input: dict[str, list[Chosen]] = {}
    for value in a.inputs:
        twin = twins.get(value.name)
        both = (value,) if twin is None else (value, twin)
        by_input[value.name] = list(_makes(both, numbers))
    random = np.random.default_rng(5)
    longest = max(map(len, by_input.values()), default=0)
    for index in range(longest):
        changed = {name: makes[index % len(makes)] for name, makes in by_input.items() if makes}
        yield _changed(base, changed, random)
    if sum(1 for makes in by_input.values() if makes) > 1:
        for name, makes in by_input.items():
            for make in makes:
                yield _changed(base, {name: make}, random)


def _makes(both: Sequence[Value], numbers: dict[str, int]) -> Iterator[Chosen]:
    """Yield name, generator and `is_special` of each kind of values for an input; `both` has it in each graph."""
    value = both[0]
    dtype = value.dtype
    if dtype is None or value.storage is not None:
        return
    if values.is_float_input(dtype) and not is_coordinate(value):
        for kind in values.kinds_for(*both):
            if dtype.bits > 16 or not kind.is_special:
                yield kind.name, kind.make, kind.is_special
    elif dtype.kind == "b":
        for name, make in values.MASKS:
            yield f"mask: {name}", make, False
    elif dtype.is_integer:
        low, high, is_data, is_divisor = integer_range(value, numbers)
        if values.is_count(value):
            yield from ((f"count {n}", values.constant_values(n), False) for n in values.COUNTS)
        elif not is_divisor:
            for name, make in values.integers_of(low, high, is_data=is_data, bits=dtype.bits):
                yield name, make, False
        if (low, high) == (0, 2):
            for name, make in values.MASKS:
                yield f"mask: {name}", make, False


def _changed(
    base: Candidate, changed: dict[str, tuple[str, values.Make, bool]], random: np.random.Generator
) -> Candidate:
    arrays = dict(base.arrays)
    for name, (_, make, _) in changed.items():
        old = np.asarray(arrays[name])
        with np.errstate(all="ignore"):
            made = np.asarray(make(random, old.shape or (1,)))
            arrays[name] = made.reshape(old.shape).astype(old.dtype)
    stated = "; ".join(dict.fromkeys(f"{kind}" for kind, _, _ in changed.values()))
    only = f" for {next(iter(changed))}" if len(changed) == 1 and len(base.arrays) > 1 else ""
    is_special = any(special for _, _, special in changed.values())
    return Candidate(f"{stated}{only}", base.sizes, arrays, is_special)


_LIMITING = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Max", "Min", "Clip"})


def _on_limits(a: Graph, graph: Graph, sizes: dict[str, int], names: Names) -> Iterator[Candidate]:
    """Yield inputs at the limits of comparisons, next to them, and halfway between two quantized values."""
    for value, bound in islice(limits_in(graph), MAX_LIMITS):
        for setting in solve(value, bound, sizes):
            yield from realized(a, names.renamed(setting), sizes, f"'{value.name}' at {_short(bound)}", WAYS)


def limits_in(graph: Graph) -> Iterator[tuple[Value, float]]:
    """Yield values with the constant thresholds of their comparisons, clips and roundings, bodies included."""
    for inner in walk(graph):
        for node in inner:
            if node.op in {"Round", "Floor", "Ceil"} or (node.op == "Cast" and _is_to_integer(node)):
                yield from ((node.operands[0], half) for half in (0.5, 2.5))
            elif node.op in _LIMITING:
                yield from _limits_of_operands(node)
            elif node.op == "NonMaxSuppression":
                threshold = constant_of(node.operand(4))
                number = 0.0 if threshold is None else float(np.max(threshold))
                if abs(number) < LARGEST_LIMIT:
                    yield node.operands[1], number


def _is_to_integer(node: Any) -> bool:
    fact = node.output.fact
    x = node.operands[0].dtype
    is_integer = isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.is_integer
    return is_integer and x is not None and x.is_floating


def _limits_of_operands(node: Any) -> Iterator[tuple[Value, float]]:
    known = [(value, constant_of(value)) for value in node.operands]
    moving = [value for value, constant in known if constant is None]
    for _, constant in known:
        if constant is not None and np.size(constant) and np.asarray(constant).dtype.kind in "fiu":
            number = float(np.asarray(constant, np.float64).reshape(-1)[0])
            if np.isfinite(number):
                yield from ((value, number) for value in moving)


def realized(
    graph: Graph, setting: Setting, sizes: dict[str, int], label: str, ways: Sequence[tuple[str, tuple[int, ...]]]
) -> Iterator[Candidate]:
    """Convert a setting to arrays: elements equal to its numbers, larger or smaller, according to `ways`."""
    sizes = {**sizes, **setting.sizes}
    base = normal(graph, sizes)
    if base is None:
        return
    if not setting.inputs:
        yield Candidate(label, base.sizes, base.arrays)
        for name, size in setting.sizes.items():
            larger = normal(graph, {**sizes, name: size + 1})
            if larger is not None:
                yield Candidate(label, larger.sizes, larger.arrays)
        return
    inputs = {value.name: value for value in graph.inputs}
    for way, factors in ways:
        arrays = dict(base.arrays)
        for name, numbers in setting.inputs.items():
            if name not in inputs:
                return
            filled = _fill_near(inputs[name], np.asarray(arrays[name]), numbers, factors)
            if filled is None:
                return
            arrays[name] = filled
        yield Candidate(f"{label}{way}", base.sizes, arrays)


def _fill_near(value: Value, old: Any, numbers: Any, factors: tuple[int, ...]) -> Any:
    """Return an array of values and their neighbours, or `None` if they exceed the range of an integer input."""
    target = np.asarray(numbers, np.float64)
    if target.ndim and (not old.shape or target.shape[-1] not in {1, old.shape[-1]}):
        return None
    if old.dtype.kind == "b":
        return np.full(old.shape, bool(np.max(target) > 0))
    if old.dtype.kind not in "fiu":
        return None
    step = step_of(value, float(np.max(np.abs(target))) if target.size else 0.0)
    ways = _tile_factors(factors, old.shape[:-1] if target.ndim else old.shape)
    with np.errstate(all="ignore"):
        # Keep a direction along the last axis; only its length changes.
        found = target * (1 + 0.5 * ways[..., None]) if target.ndim else target + step * ways
    fitted = _cast_saturated(np.broadcast_to(found, old.shape), old.dtype)
    return None if values.is_never_zero(value) and not np.all(fitted) else fitted


def _tile_factors(factors: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return np.resize(np.asarray(factors, np.float64), math.prod(shape)).reshape(shape)


def _cast_saturated(numbers: Any, dtype: Any) -> Any:
    """Cast an array to an element type; integers saturate."""
    if dtype.kind not in "iu":
        # A number beyond a narrower type is infinite there.
        with np.errstate(over="ignore"):
            return numbers.astype(dtype)
    limits = np.iinfo(dtype)
    rounded = cast("Any", np.round(numbers))
    return np.minimum(np.maximum(rounded, limits.min), limits.max).astype(dtype)


def _short(number: Any) -> str:
    return f"{float(np.max(number)):g}"


def candidates_for_part(
    a: Graph, part: CoveragePoint, choices: Sequence[dict[str, int]], names: Names
) -> Iterator[Candidate]:
    """Return candidates that may reach a part of `a`, or of a second graph whose inputs `names` maps to `a`."""
    if part.wish is None:
        return
    value, sign, bound = part.wish
    if isinstance(bound, np.ndarray):
        yield from _with_every(a, value, bound, choices, names)
        return
    number = _bound_value(bound)
    is_flag = value.dtype is not None and value.dtype.kind == "b"
    target = (1.0 if sign > 0 else 0.0) if is_flag else number + sign * step_of(value, number)
    for sizes in choices:
        for setting in solve(value, target, sizes):
            yield from realized(a, names.renamed(setting), sizes, part.phrase, APART)


def _with_every(
    a: Graph, value: Value, numbers: Any, choices: Sequence[dict[str, int]], names: Names
) -> Iterator[Candidate]:
    """Yield candidates with each of some indices in an index input, in a batch that is large enough."""
    source = input_of(value)
    name = None if source is None else names.inputs.get(source.name, source.name)
    given = next((each for each in a.inputs if each.name == name), None)
    batches, _ = open_axes(a)
    if given is None:
        return
    for sizes in choices:
        count = math.prod(extents(given, a.extents.evaluate_symbols(sizes)))
        more = {batch: sizes[batch] * -(-len(numbers) // max(count, 1)) for batch in batches if batch in sizes}
        base = normal(a, {**sizes, **more})
        if base is not None:
            old = np.asarray(base.arrays[given.name])
            filled = np.asarray(np.resize(numbers, old.shape), old.dtype)
            yield Candidate("every index", base.sizes, {**base.arrays, given.name: filled})


def _bound_value(bound: Any) -> float:
    """Return the first element of a bound as a float; 0 for a computed value."""
    if isinstance(bound, (int, float)):
        return float(bound)
    known = constant_of(bound)
    return 0.0 if known is None or not np.size(known) else float(np.asarray(known, np.float64).reshape(-1)[0])
