"""Inputs of a run: check arrays against the declared facts, or generate random ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
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
    from collections.abc import Iterable, Iterator, Sequence

    from graphport.core.dims import Dim, Extents
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Node, Value

_NUMBERS = "biufcV"
_MOST_AXES = 64
_UNTYPED = "its element type is unknown: set it (--input x=int64:1x8), or pass an array"
_SMALLER = "set smaller dims with --input where the file has dynamic dims"

LONGEST = 4096
"""Maximum size of a free axis of generated inputs."""

_FEW, _LEAST_TRIES, _MOST_VISITS = 8, 256, 25_000
"""Sizes that are tried first; limit of further sizes, and limit of visited nodes."""

_PROBE, _MOST_CANDIDATES, _MATRIX = 64, 16, 2
"""A size that most layers accept; limit of sizes from weights for one axis, and minimum rank of these weights."""

_MOST_RELATED = 64
"""Limit of relations between free axes that are tried if the model refuses equal sizes."""

_MOST_OPEN = 3
_MOST_SIZES = 64
"""Limit of free axes, and limit of size combinations in the search for other sizes."""


def checked(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return an array of the declared dtype and shape for each input of `graph`.

    An input with an initial value, such as the state of a model, defaults to it. Arrays are converted only if that is
    lossless (float64 zeros and ones to float32, for example).

    Raises:
        DiagnosticError: RUN0006 inputs are missing or unknown, RUN0007 a conversion would change values, RUN0008 a
            shape does not fit; all of them together.
    """
    declared = {value.name: value for value in graph.inputs}
    known = f"inputs: {', '.join(declared)}"
    findings = [
        Diagnostic("RUN0006", f"unknown input {name!r}", None, known) for name in inputs if name not in declared
    ]
    found: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name, value in declared.items():
        if name not in inputs and value.storage is not None:
            found[name] = value.storage.numpy()
        elif name not in inputs:
            findings.append(Diagnostic("RUN0006", f"missing input {name!r}", None, f"pass an array of {value.fact}"))
        else:
            found[name] = _convert_input(value, inputs[name], _Lengths(graph.extents, sizes), findings)
    if findings:
        raise DiagnosticError(*findings)
    return found


def named_inputs(graph: Graph, inputs: object) -> dict[str, Any]:
    """Return inputs by name: a mapping, a list or tuple in the order of the graph's inputs, or the only array.

    Raises:
        DiagnosticError: RUN0006 there are more arrays than inputs.
    """
    if isinstance(inputs, Mapping):
        return dict(cast("Mapping[str, Any]", inputs))
    names = [value.name for value in graph.inputs]
    arrays = list(cast("Sequence[Any]", inputs)) if isinstance(inputs, list | tuple) else [inputs]
    if len(arrays) > len(names):
        message = f"{len(arrays)} arrays for a model with {len(names)} inputs"
        raise DiagnosticError(Diagnostic("RUN0006", message, None, f"inputs: {', '.join(names)}"))
    return dict(zip(names, arrays, strict=False))


class _Lengths(NamedTuple):
    extents: Extents
    sizes: dict[str, int]


def _convert_input(value: Value, given: Any, known: _Lengths, findings: list[Diagnostic]) -> Any:
    fact = value.fact
    if isinstance(fact, SequenceFact) and is_sequence(given):
        return [_array(value.name, fact.element, item, findings) for item in given]
    if not isinstance(fact, TensorFact):
        return given
    if given is None:
        findings.append(Diagnostic("RUN0007", f"the input {value.name!r} is no array: None", None, f"pass {fact}"))
        return np.zeros(0)
    array = _array(value.name, fact, given, findings)
    if fact.shape is not None and not _matches_shape(fact.shape, np.shape(array), known):
        message = f"the input {value.name!r} has shape {list(np.shape(array))}, expected {fact}"
        remedy = f"already fixed by other inputs: {known.sizes}" if known.sizes else None
        findings.append(Diagnostic("RUN0008", message, None, remedy))
    return array


def _array(name: str, fact: Fact, given: Any, findings: list[Diagnostic]) -> Any:
    try:
        array = _host_array(given)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        findings.append(Diagnostic("RUN0007", f"the input {name!r} is not an array: {error}", None, f"pass {fact}"))
        return np.zeros(0)
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        return array
    if fact.dtype is DType.STRING:
        return array.astype(object)
    if array.dtype == fact.dtype.numpy:
        return array
    converted = _converted(array, fact.dtype)
    if converted is None:
        message = (
            f"the input {name!r} is {array.dtype}, the model expects {fact.dtype}, and the conversion would "
            "change values"
        )
        findings.append(Diagnostic("RUN0007", message, None, f"convert it to {fact.dtype} yourself"))
        return array
    return converted


def _host_array(given: Any) -> Any:
    """Return an array of any package as a NumPy array: `__array__`, else DLPack; a tensor of torch without gradient."""
    if hasattr(given, "detach"):
        tensor = given.detach().cpu()
        given = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    if not hasattr(given, "__array__") and hasattr(given, "__dlpack__"):
        return np.from_dlpack(given)
    return np.asarray(given)


def _converted(array: Any, dtype: DType) -> Any:
    """Cast `array` to `dtype`; `None` if that would change an element."""
    if array.dtype.kind not in _NUMBERS:
        return None
    if array.dtype.kind == "c" and dtype.kind != "c":
        if np.any(array.imag):
            return None
        array = array.real
    # float64 does not represent all int64 values; types without a NumPy dtype fit into it.
    wide = array if array.dtype.kind in "biuc" else array.astype(np.float64)
    with np.errstate(all="ignore"):
        converted = array.astype(dtype.numpy)
        back = converted.real if dtype.kind == "c" and wide.dtype.kind != "c" else converted
        again = back.astype(wide.dtype)
        # NumPy converts NaN and infinity to 0 or the lowest integer.
        is_real = dtype.kind == "f" and wide.dtype.kind in "biu"
        overflows = is_real and not np.all(np.isfinite(back.astype(np.float32)))
    is_same = np.array_equal(again, wide, equal_nan=wide.dtype.kind in "fc") and not _wraps(wide, back)
    return converted if is_same and not overflows else None


def _wraps(integers: Any, converted: Any) -> bool:
    """Whether integers that survive a round trip have other values in the intermediate type."""
    if integers.dtype.kind not in "iu":
        return False
    if converted.dtype.kind in "iu":
        return not np.array_equal(integers < 0, converted < 0)
    # The conversion of a float beyond the integer range depends on the processor.
    limit = 2.0 ** int(np.iinfo(integers.dtype).max).bit_length()
    return bool(np.any(converted.astype(np.float64) >= limit))


def _matches_shape(dims: tuple[Dim, ...], shape: tuple[int, ...], known: _Lengths) -> bool:
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
                # The lower bound 1 of a named axis is only a default; a network may accept empty inputs.
                or (low or 0) > max(length, 1)
                or (high is not None and high < length)
            ):
                return False
        elif all(name in sizes for name in names) and extents.evaluate(dim, sizes) != length:
            return False
    return True


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Any]:
    """Generate test inputs: floats normal(0, 1), integers 0 or 1, fair booleans; inputs with an initial value keep it.

    A symbol is 1 if it is a batch (the first axis), else twice the smallest size that shape inference accepts, or that
    size itself. If no common size is accepted, a symbol may be the sum of others (a mask over a cache, for example);
    then symbols constrained by weights, such as channels, are determined one by one first.

    Raises:
        DiagnosticError: RUN0009 an input has unknown rank or is not a tensor, no size is accepted, or the inputs take
            more memory than is available.
    """
    return _random_arrays(graph, free_sizes(graph), seed)


def other_random_inputs(graph: Graph, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Generate inputs with `other_sizes`, for a model that does not run with those of `random_inputs`."""
    return (_random_arrays(graph, sizes, seed) for sizes in other_sizes(graph))


def other_sizes(graph: Graph) -> Iterator[dict[str, int]]:
    """Return sizes of the inputs' symbols that differ from `free_sizes`.

    Symbols other than batches are 1 or one power of two from 8 on. Sizes without diagnostics in bodies come first;
    `free_sizes` ignores these, because a body may never run.
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


def _random_arrays(graph: Graph, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    numbers = graph.extents.evaluate_symbols(sizes)
    wanted: dict[str, tuple[DType, list[int]]] = {}
    needed = 0
    for value in graph.inputs:
        if value.storage is not None:
            continue
        dtype, shape = wanted[value.name] = _input_type(value, numbers)
        needed += math.prod(shape) * max(dtype.bits // 8, 1)
        # Random values are generated with 64 bits before the conversion to the input's dtype.
        reason = no_array(shape) or memory.shortage(needed + 8 * math.prod(shape))
        if reason is not None:
            message = f"cannot generate an input for {value.name!r}: {reason}"
            raise DiagnosticError(Diagnostic("RUN0009", message, value.origin, _SMALLER))
    return {
        value.name: _random(random, *wanted[value.name]) if value.storage is None else value.storage.numpy()
        for value in graph.inputs
    }


def _input_type(value: Value, numbers: Mapping[str, int]) -> tuple[DType, list[int]]:
    """Return the element type and the shape of an input for given sizes of symbols."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
        message = f"cannot generate an input for {value.name!r}: {fact}"
        is_untyped = isinstance(fact, TensorFact) and fact.dtype is None
        remedy = _UNTYPED if is_untyped else "pass inputs, or set the shape with --input"
        raise DiagnosticError(Diagnostic("RUN0009", message, value.origin, remedy))
    return fact.dtype, [dim if isinstance(dim, int) else evaluate(dim, numbers) for dim in fact.shape]


def no_array(shape: Sequence[int]) -> str | None:
    """Return why NumPy cannot create an array of that shape with any amount of memory, or `None`."""
    if len(shape) > _MOST_AXES:
        return f"rank {len(shape)} exceeds the limit of {_MOST_AXES}"
    # Complex numbers take 16 bytes each; NumPy ignores a dim of size 0 in this limit.
    if math.prod(dim for dim in shape if dim) > sys.maxsize >> 4:
        return f"{'x'.join(map(str, shape))} elements exceed the addressable memory"
    return None


def free_sizes(graph: Graph) -> dict[str, int]:
    """Return the size of each symbol of the inputs that `random_inputs` chooses."""
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
    message = f"no size up to {tries} is valid for the dynamic dims {', '.join(free)}"
    raise DiagnosticError(Diagnostic("RUN0009", message, None, "set them with --input NAME=SHAPE"))


def _least(
    graph: Graph, ones: dict[str, int], free: dict[str, Symbolic], lengths: Iterable[int]
) -> dict[str, int] | None:
    """Return twice the first size of `lengths` that the model accepts for all free axes, or that size itself."""
    for least in lengths:
        sizes = ones | {name: _clamped(least, symbol) for name, symbol in free.items()}
        if is_accepted(graph, sizes):
            twice = ones | {name: _clamped(2 * least, symbol) for name, symbol in free.items()}
            # A layer that takes so many entries and no others accepts the least length alone.
            return twice if is_accepted(graph, twice) else sizes
    return None


def _related(graph: Graph, ones: dict[str, int], free: dict[str, Symbolic]) -> dict[str, int] | None:
    """Return sizes of which one is the sum of others, such as a mask over a cache and new tokens."""
    sizes = ones | {name: _clamped(2, symbol) for name, symbol in free.items()}
    for relations in islice(candidates(graph, free), _MOST_RELATED):
        found = completed(relations, sizes)
        if found != sizes and is_accepted(graph, found):
            return found
    return None


def _forced(graph: Graph, ones: dict[str, int], free: dict[str, Symbolic]) -> dict[str, int]:
    """Return sizes of single axes that weights require, such as channels, so that more results get a shape."""
    sizes = ones | {name: _clamped(_PROBE, symbol) for name, symbol in free.items()}
    best = _count_inferred_results(graph, sizes)
    forced: dict[str, int] = {}
    if best == _values(graph):
        return forced
    candidates = list(islice(_lengths_of_weights(graph), _MOST_CANDIDATES))
    for name in islice(free, _MOST_OPEN * 2):
        reached = {n: _count_inferred_results(graph, sizes | {name: _clamped(n, free[name])}) for n in candidates}
        length = max(reached, key=lambda n: reached[n], default=0)
        if length and reached[length] > best:
            best = reached[length]
            forced[name] = sizes[name] = _clamped(length, free[name])
    return forced


def _values(graph: Graph) -> int:
    return sum(len(node.results) for node in graph)


def _count_inferred_results(graph: Graph, sizes: dict[str, int]) -> int:
    """Count the results with an inferred shape before the first error."""
    trial = rewrite.copy(graph)
    bind(trial, dict(sizes))
    inference = Inference()
    inference.graph(trial)
    if not any(finding.is_error for finding in inference.findings):
        return _values(graph)
    results = (value for node in trial for value in node.results)
    return sum(isinstance(value.fact, TensorFact) and value.fact.is_static for value in results) - 1


def _lengths_of_weights(graph: Graph) -> Iterator[int]:
    """Return 1 and the sizes of the axes of weights, in the order of their consumers."""
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
    """Return the sizes of batch symbols, and the other symbols of the inputs.

    The only axis of a signal is not a batch if a layer rejects size 1.
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
    """Whether shape inference reports no error for these sizes of symbols; errors in bodies are warnings."""
    return not any(finding.is_error for finding in _findings(graph, sizes))


def has_comparable_results(graph: Graph, sizes: dict[str, int]) -> bool:
    """Whether no output is empty for these sizes of symbols, and no window exceeds its input.

    Runtimes differ in their results for such windows, and some refuse them.
    """
    trial = rewrite.copy(graph)
    bind(trial, dict(sizes))
    Inference().graph(trial)
    facts = [value.fact for value in trial.outputs]
    is_empty = any(isinstance(fact, TensorFact) and 0 in (fact.shape or ()) for fact in facts)
    return not is_empty and not any(map(_exceeds_its_image, trial))


def _exceeds_its_image(node: Node) -> bool:
    """Whether a window is larger than its padded input."""
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
