"""Inputs of a run: held against what the graph declares, or made up."""

from __future__ import annotations

import math
import sys
from itertools import islice, product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic, bounds, evaluate, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import SequenceFact, TensorFact
from graphport.core.sequences import is_sequence
from graphport.ir import rewrite
from graphport.ops.bind import bind
from graphport.ops.infer import Inference
from graphport.runtimes import memory
from graphport.runtimes.relations import candidates, completed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphport.core.dims import Dim, Extents
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Node, Value

_NUMBERS = "biufcV"
_MOST_AXES = 64
_UNTYPED = "its element type is not known: bind it (--input x=int64:1x8), or give an array of the one that is meant"
_SMALLER = "bind smaller extents with --input where the file leaves them open"

LONGEST = 4096
"""Longest free axis that is tried when inputs are made up."""

_FEW, _LEAST_TRIES, _MOST_VISITS = 8, 256, 25_000
"""Lengths that are tried before others are looked for, and then: so many, or more while that visits so few nodes."""

_PROBE, _MOST_CANDIDATES, _MATRIX = 64, 16, 2
"""A length that most layers take; how many lengths of weights are tried for one axis, and of which rank on."""

_MOST_RELATED = 64
"""How many relations between free axes are tried where no lengths suit that are equal."""

_MOST_OPEN = 3
_MOST_SIZES = 64
"""Free axes up to which other sizes are looked for, and how many of these are looked at."""


def checked(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """An array of the declared element type and shape for each input of `graph`.

    One that has numbers of its own begins with them where none are given: the state of a model that keeps one.
    Arrays are converted only where that loses nothing (float64 zeros and ones for float32, say).

    Raises:
        DiagnosticError: RUN0006 inputs are missing or unknown, RUN0007 a conversion would change numbers, RUN0008 a
            shape does not fit; all of them at once.
    """
    declared = {value.name: value for value in graph.inputs}
    known = f"inputs: {', '.join(declared)}"
    findings = [
        Diagnostic("RUN0006", f"the model has no input {name!r}", None, known)
        for name in inputs
        if name not in declared
    ]
    found: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name, value in declared.items():
        if name not in inputs and value.storage is not None:
            found[name] = value.storage.numpy()
        elif name not in inputs:
            findings.append(Diagnostic("RUN0006", f"the input {name!r} is missing", None, f"it is {value.fact}"))
        else:
            found[name] = _fitted(value, inputs[name], _Lengths(graph.extents, sizes), findings)
    if findings:
        raise DiagnosticError(*findings)
    return found


class _Lengths(NamedTuple):
    extents: Extents
    sizes: dict[str, int]


def _fitted(value: Value, given: Any, known: _Lengths, findings: list[Diagnostic]) -> Any:
    fact = value.fact
    if isinstance(fact, SequenceFact) and is_sequence(given):
        return [_array(value.name, fact.element, item, findings) for item in given]
    if not isinstance(fact, TensorFact) or given is None:
        return given
    array = _array(value.name, fact, given, findings)
    if fact.shape is not None and not _fits(fact.shape, np.shape(array), known):
        message = f"the input {value.name!r} has shape {list(np.shape(array))}, the model takes {fact}"
        remedy = f"already fixed by other inputs: {known.sizes}" if known.sizes else None
        findings.append(Diagnostic("RUN0008", message, None, remedy))
    return array


def _array(name: str, fact: Fact, given: Any, findings: list[Diagnostic]) -> Any:
    array = np.asarray(given)
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        return array
    if fact.dtype is DType.STRING:
        return array.astype(object)
    if array.dtype == fact.dtype.numpy:
        return array
    converted = _converted(array, fact.dtype)
    if converted is None:
        message = f"the input {name!r} is {array.dtype}, the model takes {fact.dtype}, and the numbers would change"
        findings.append(Diagnostic("RUN0007", message, None, f"convert it to {fact.dtype} yourself"))
        return array
    return converted


def _converted(array: Any, dtype: DType) -> Any:
    """`array` with elements of type `dtype`; `None` if that would change a number."""
    if array.dtype.kind not in _NUMBERS:
        return None
    if array.dtype.kind == "c" and dtype.kind != "c":
        if np.any(array.imag):
            return None
        array = array.real
    # Integers of 64 bits are not all float64; what NumPy has no type of its own for is.
    wide = array if array.dtype.kind in "biuc" else array.astype(np.float64)
    with np.errstate(all="ignore"):
        converted = array.astype(dtype.numpy)
        back = converted.real if dtype.kind == "c" and wide.dtype.kind != "c" else converted
        again = back.astype(wide.dtype)
        # NumPy makes 0 or the lowest integer of NaN and infinity, which is what some types have for these integers.
        is_real = dtype.kind == "f" and wide.dtype.kind in "biu"
        overflows = is_real and not np.all(np.isfinite(back.astype(np.float32)))
    is_same = np.array_equal(again, wide, equal_nan=wide.dtype.kind in "fc") and not _wraps(wide, back)
    return converted if is_same and not overflows else None


def _wraps(integers: Any, converted: Any) -> bool:
    """Whether integers that come back from a conversion as they were are other numbers in between."""
    if integers.dtype.kind not in "iu":
        return False
    if converted.dtype.kind in "iu":
        return not np.array_equal(integers < 0, converted < 0)
    # A float beyond the largest integer comes back as whatever the processor likes.
    limit = 2.0 ** int(np.iinfo(integers.dtype).max).bit_length()
    return bool(np.any(converted.astype(np.float64) >= limit))


def _fits(dims: tuple[Dim, ...], shape: tuple[int, ...], known: _Lengths) -> bool:
    extents, sizes = known
    if len(dims) != len(shape):
        return False
    for dim, length in zip(dims, shape, strict=True):
        if not isinstance(dim, Symbolic):
            if dim != length:
                return False
            continue
        names = extents.free(dim)
        if dim in symbols(dim).values() and names == symbols(dim).keys():
            (name,) = names
            low, high = bounds(dim)
            if (
                sizes.setdefault(name, length) != length
                # That a named axis is not empty is taken for granted; a network that can compute on nothing may.
                or (low or 0) > max(length, 1)
                or (high is not None and high < length)
            ):
                return False
        elif all(name in sizes for name in names) and extents.evaluate(dim, sizes) != length:
            return False
    return True


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Any]:
    """Inputs to verify with: floats normal(0, 1), integers 0 or 1, fair bools; what has numbers of its own begins so.

    A symbol is 1 where it is a batch (the first axis), else twice the least length that shape inference accepts, or
    that length itself where twice as much is refused. Where none does for all, one may be the sum of others, a
    mask over a cache for one; then those that weights demand, of channels for one, are found one by one before.

    Raises:
        DiagnosticError: RUN0009 an input has unknown rank or is no tensor, no length is accepted, or the inputs take
            more memory than is free.
    """
    return _drawn(graph, free_sizes(graph), seed)


def other_random_inputs(graph: Graph, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Inputs of the sizes of `other_sizes`, for a model that does not run with those of `random_inputs`."""
    return (_drawn(graph, sizes, seed) for sizes in other_sizes(graph))


def other_sizes(graph: Graph) -> Iterator[dict[str, int]]:
    """Other lengths of the symbols of the inputs than `free_sizes` gives.

    What is no batch is 1 or a power of two from 8 on, the same for all that are not 1. Those come first of which shape
    inference finds nothing amiss in bodies either, where `free_sizes` lets it pass, as a body may never run.
    """
    ones, free = open_axes(graph)
    if not 0 < len(free) <= _MOST_OPEN:
        return
    second: list[dict[str, int]] = []
    lengths = [1 << exponent for exponent in range(3, LONGEST.bit_length())]
    choices = (chosen for length in lengths for chosen in product((length, 1), repeat=len(free)) if length in chosen)
    for chosen in islice(choices, _MOST_SIZES):
        sizes = ones | {name: _clamped(n, free[name]) for name, n in zip(free, chosen, strict=True)}
        findings = _findings(graph, sizes)
        if not findings:
            yield sizes
        elif not any(finding.is_error for finding in findings):
            second.append(sizes)
    yield from second


def _drawn(graph: Graph, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    numbers = graph.extents.numbers(sizes)
    wanted: dict[str, tuple[DType, list[int]]] = {}
    needed = 0
    for value in graph.inputs:
        if value.storage is not None:
            continue
        dtype, shape = wanted[value.name] = _wanted(value, numbers)
        needed += math.prod(shape) * max(dtype.bits // 8, 1)
        # What is drawn is 64 bits wide before it is of the input's own type.
        reason = no_array(shape) or memory.shortage(needed + 8 * math.prod(shape))
        if reason is not None:
            message = f"no input can be made up for {value.name!r}: {reason}"
            raise DiagnosticError(Diagnostic("RUN0009", message, value.origin, _SMALLER))
    return {
        value.name: _random(random, *wanted[value.name]) if value.storage is None else value.storage.numpy()
        for value in graph.inputs
    }


def _wanted(value: Value, numbers: Mapping[str, int]) -> tuple[DType, list[int]]:
    """Element type and shape of an input."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
        message = f"no input can be made up for {value.name!r}: {fact}"
        is_untyped = isinstance(fact, TensorFact) and fact.dtype is None
        remedy = _UNTYPED if is_untyped else "give inputs, or bind its shape"
        raise DiagnosticError(Diagnostic("RUN0009", message, value.origin, remedy))
    return fact.dtype, [dim if isinstance(dim, int) else evaluate(dim, numbers) for dim in fact.shape]


def no_array(shape: Sequence[int]) -> str | None:
    """Why NumPy has no array of that shape whatever the memory, if so."""
    if len(shape) > _MOST_AXES:
        return f"it has {len(shape)} axes, and arrays have at most {_MOST_AXES}"
    # Complex numbers are drawn as 16 bytes each; an axis of length 0 does not help, NumPy leaves it out.
    if math.prod(dim for dim in shape if dim) > sys.maxsize >> 4:
        return f"{'x'.join(map(str, shape))} are more elements than an address space has"
    return None


def free_sizes(graph: Graph) -> dict[str, int]:
    """A length for each symbol of the inputs, as `random_inputs` chooses them."""
    ones, free = open_axes(graph)
    if not free:
        return ones
    tries = min(LONGEST, max(_LEAST_TRIES, _MOST_VISITS // max(len(graph), 1)))
    found = _least(graph, ones, free, range(1, min(_FEW, tries) + 1)) or _related(graph, ones, free)
    if found is None:
        forced = _forced(graph, ones, free)
        ones, free = ones | forced, {name: symbol for name, symbol in free.items() if name not in forced}
        found = _least(graph, ones, free, range(1 if forced else _FEW + 1, tries + 1))
    if found is not None:
        return found
    message = f"no length up to {tries} suits the axes {', '.join(free)}"
    raise DiagnosticError(Diagnostic("RUN0009", message, None, "bind them with --input NAME=SHAPE"))


def _least(
    graph: Graph, ones: dict[str, int], free: dict[str, Symbolic], lengths: Iterable[int]
) -> dict[str, int] | None:
    """Twice the first of `lengths` that is accepted for all that is free, or that length where twice is not."""
    for least in lengths:
        sizes = ones | {name: _clamped(least, symbol) for name, symbol in free.items()}
        if is_accepted(graph, sizes):
            twice = ones | {name: _clamped(2 * least, symbol) for name, symbol in free.items()}
            # A layer that takes so many entries and no others accepts the least length alone.
            return twice if is_accepted(graph, twice) else sizes
    return None


def _related(graph: Graph, ones: dict[str, int], free: dict[str, Symbolic]) -> dict[str, int] | None:
    """Lengths of which one is the sum of others, as that of a mask over a cache and what comes to it."""
    sizes = ones | {name: _clamped(2, symbol) for name, symbol in free.items()}
    for relations in islice(candidates(graph, free), _MOST_RELATED):
        found = completed(relations, sizes)
        if found != sizes and is_accepted(graph, found):
            return found
    return None


def _forced(graph: Graph, ones: dict[str, int], free: dict[str, Symbolic]) -> dict[str, int]:
    """Lengths of single axes that weights demand, channels for one: with them, more of the graph gets a shape."""
    sizes = ones | {name: _clamped(_PROBE, symbol) for name, symbol in free.items()}
    best = _reached(graph, sizes)
    forced: dict[str, int] = {}
    if best == _values(graph):
        return forced
    candidates = list(islice(_lengths_of_weights(graph), _MOST_CANDIDATES))
    for name in islice(free, _MOST_OPEN * 2):
        reached = {n: _reached(graph, sizes | {name: _clamped(n, free[name])}) for n in candidates}
        length = max(reached, key=lambda n: reached[n], default=0)
        if length and reached[length] > best:
            best = reached[length]
            forced[name] = sizes[name] = _clamped(length, free[name])
    return forced


def _values(graph: Graph) -> int:
    return sum(len(node.results) for node in graph)


def _reached(graph: Graph, sizes: dict[str, int]) -> int:
    """How many results get a shape where one is refused; all, if none is."""
    trial = rewrite.copy(graph)
    bind(trial, dict(sizes))
    inference = Inference()
    inference.graph(trial)
    if not any(finding.is_error for finding in inference.findings):
        return _values(graph)
    results = (value for node in trial for value in node.results)
    return sum(isinstance(value.fact, TensorFact) and value.fact.is_static for value in results) - 1


def _lengths_of_weights(graph: Graph) -> Iterator[int]:
    """1, and the lengths of the axes of weights, in the order in which they are read."""
    seen = {1}
    yield 1
    for node in graph:
        for value in node.inputs:
            shape = None if value is None or not value.is_constant or value.storage is None else value.storage.shape
            for length in () if shape is None or len(shape) < _MATRIX else shape:
                if length not in seen:
                    seen.add(length)
                    yield length


def open_axes(graph: Graph) -> tuple[dict[str, int], dict[str, Symbolic]]:
    """The lengths of batches, and the other symbols of the inputs.

    The only axis of a signal is no batch where a layer does not take one entry.
    """
    batch: dict[str, Symbolic] = {}
    other: dict[str, Symbolic] = {}
    of_items: set[str] = set()
    for value in graph.inputs:
        if isinstance(value.fact, TensorFact):
            for axis, dim in enumerate(value.fact.shape or ()):
                if isinstance(dim, Symbolic):
                    known = symbols(dim) | graph.extents.declared
                    names = sorted(graph.extents.free(dim))
                    (batch if axis == 0 else other).update({n: known[n] for n in names})
                    of_items.update(names if value.fact.rank != 1 else ())
    signals = {name: symbol for name, symbol in batch.items() if name not in of_items}
    if signals and not is_accepted(graph, {name: _clamped(1, symbol) for name, symbol in (batch | other).items()}):
        batch = {name: symbol for name, symbol in batch.items() if name in of_items}
        other |= signals
    ones = {name: _clamped(1, symbol) for name, symbol in batch.items()}
    return ones, {name: symbol for name, symbol in other.items() if name not in ones}


def _clamped(size: int, symbol: Symbolic) -> int:
    low, high = bounds(symbol)
    at_least = max(size, low or 0)
    return at_least if high is None else min(at_least, high)


def is_accepted(graph: Graph, sizes: dict[str, int]) -> bool:
    """Whether shape inference finds no error with these lengths of symbols; what is wrong in a body is a warning."""
    return not any(finding.is_error for finding in _findings(graph, sizes))


def shows(graph: Graph, sizes: dict[str, int]) -> bool:
    """Whether no output is known to be empty with these lengths of symbols, and no window larger than what it is over.

    Runtimes differ in what comes of such a window, and some refuse it.
    """
    trial = rewrite.copy(graph)
    bind(trial, dict(sizes))
    Inference().graph(trial)
    facts = [value.fact for value in trial.outputs]
    is_empty = any(isinstance(fact, TensorFact) and 0 in (fact.shape or ()) for fact in facts)
    return not is_empty and not any(map(_exceeds_its_image, trial))


def _exceeds_its_image(node: Node) -> bool:
    """Whether a window is larger than what it goes over, with its padding."""
    kernel = cast("tuple[int, ...]", node.attributes.get("kernel_shape", ()))
    fact = node.operands[0].fact if kernel else None
    if not isinstance(fact, TensorFact) or "SAME" in str(node.attributes.get("auto_pad")):
        return False
    count = len(kernel)
    pads = cast("tuple[int, ...]", node.attributes.get("pads") or (0,) * (2 * count))
    dilations = cast("tuple[int, ...]", node.attributes.get("dilations") or (1,) * count)
    sides = zip((fact.shape or ())[2:], kernel, dilations, pads[:count], pads[count:], strict=False)
    return any(isinstance(n, int) and n + begin + end < (k - 1) * d + 1 for n, k, d, begin, end in sides)


def _findings(graph: Graph, sizes: dict[str, int]) -> Sequence[Diagnostic]:
    trial = rewrite.copy(graph)
    bind(trial, dict(sizes))
    inference = Inference()
    inference.graph(trial)
    return inference.findings


def _random(random: np.random.Generator, dtype: DType, shape: list[int]) -> Any:
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.is_integer:
        return random.integers(0, 2, shape).astype(dtype.numpy)
    if dtype is DType.STRING:
        return np.full(shape, "a", object)
    if dtype.kind == "c":
        return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype.numpy)
    return random.normal(size=shape).astype(dtype.numpy)
