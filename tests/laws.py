"""Invariants of graphs: equivalent forms of a graph compute equal results.

A property takes a graph of any dialect and arrays for its inputs, and returns one sentence for each violation. The
expected results are the outputs of the unchanged graph, or those of the conformance suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphport.backends import prepare
from graphport.conversion.legalize import is_canonical, legalize
from graphport.core.diagnostics import raise_errors
from graphport.core.facts import SequenceFact, TensorFact
from graphport.core.storage import ArrayStorage, FileStorage, MappedFile
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Value, walk
from graphport.passes.driver import run as run_passes
from graphport.passes.fold_constants import fold_constants
from graphport.passes.journal import Journal
from graphport.passes.simplify import SIMPLIFY

Arrays = Sequence[Any]


class Opaque(Exception):
    """A node has no canonical form, or none with the symbolic dims of the property."""


def canonical(graph: Graph) -> Graph:
    """Legalize `graph`.

    Raises:
        DiagnosticError: the graph is invalid.
        Opaque: a node has no canonical form.
    """
    found, findings = legalize(graph)
    raise_errors(findings)
    if not is_canonical(found):
        raise Opaque("; ".join(finding.message for finding in findings))
    wrong = [finding.message for finding in findings if finding.code == "SHAPE0004"]
    if wrong:
        raise AssertionError(f"a contradiction is seen in what runs: {wrong[0]}")
    return found


def computed(graph: Graph, arrays: Mapping[str, Any]) -> list[Any]:
    """The outputs of a canonical graph."""
    found = prepare(graph, "reference").run(arrays)
    return [found[value.name] for value in graph.outputs]


def folded(graph: Graph, arrays: Arrays, file: Path) -> list[Any]:
    """Return the outputs with tensor inputs replaced by constants in `file`, after constant folding.

    Raises:
        Opaque: a node has no canonical form.
    """
    twin, free = _stored(graph, arrays, file)
    found = canonical(twin)
    fold_constants(found, Journal(room=1 << 40))
    return computed(found, free)


def _stored(graph: Graph, arrays: Arrays, file: Path) -> tuple[Graph, dict[str, Any]]:
    """Return a copy of `graph` with constants for its inputs, and the arrays that cannot be stored in a file."""
    twin = rewrite.copy(graph)
    free: dict[str, Any] = {}
    places: list[tuple[Value, ArrayStorage, int]] = []
    with file.open("wb") as out:
        for value, array in zip(list(twin.inputs), arrays, strict=False):
            if not isinstance(value.fact, TensorFact) or not isinstance(array, np.ndarray) or array.dtype.kind in "OSU":
                free[value.name] = array
                continue
            out.write(b"\0")  # the elements are unaligned on purpose
            storage = ArrayStorage(array)
            places.append((value, storage, out.tell()))
            out.writelines(storage.chunks())
    mapped = MappedFile(file)
    for value, storage, start in places:
        name = value.name
        twin.rename(value, twin.fresh(f"{name}.free"))
        constant = twin.add_constant(
            name, TensorFact.of(storage), FileStorage(mapped, start, storage.dtype, storage.shape)
        )
        value.replace_uses(constant)
        twin.remove_input(value)
    return twin, free


def opened(graph: Graph, arrays: Arrays, *, is_shared: bool) -> tuple[Graph, dict[str, int]]:
    """Return a copy of `graph` with a symbol for every dim of an input, and the values of the symbols.

    Dims of 0 stay, because a symbol is at least 1. Declared shapes of other values are removed.

    Args:
        graph: in any dialect.
        arrays: for its inputs.
        is_shared: whether equal dims have one symbol; otherwise each has a separate one.
    """
    twin = rewrite.copy(graph)
    sizes: dict[str, int] = {}
    for index, (value, array) in enumerate(zip(twin.inputs, arrays, strict=False)):
        if not isinstance(value.fact, TensorFact) or not isinstance(array, np.ndarray):
            continue
        names = [f"n{extent}" if is_shared else f"n{index}_{axis}" for axis, extent in enumerate(array.shape)]
        sizes |= {name: extent for name, extent in zip(names, array.shape, strict=True) if extent}
        dims = [twin.extents.declare(name) if name in sizes else 0 for name in names]
        value.fact = value.fact.with_shape(dims)
    for inner in walk(twin):
        for value in (value for node in inner for value in node.results):
            if isinstance(value.fact, TensorFact):
                value.fact = TensorFact(value.fact.dtype, None)
    return twin, sizes


def wrong_when_opened(graph: Graph, arrays: Arrays, *, is_shared: bool) -> tuple[list[str], list[Any], list[Any]]:
    """Return the wrong dims inferred from symbolic inputs, and the outputs before and after `simplify`.

    Raises:
        Opaque: a node has a canonical form only for static dims.
    """
    twin, sizes = opened(graph, arrays, is_shared=is_shared)
    found = canonical(twin)
    feeds = {value.name: array for value, array in zip(found.inputs, arrays, strict=False)}
    values = prepare(found, "reference").run(feeds, every_value=True)
    wrong = list(_misjudged(found, sizes, values))
    outputs = [values[value.name] for value in found.outputs]
    run_passes(found, SIMPLIFY)
    return wrong, outputs, computed(found, feeds)


def _misjudged(graph: Graph, sizes: Mapping[str, int], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts of top-level values that differ from the values of a run."""
    for value in graph.values():
        array, fact = values.get(value.name), value.fact
        if isinstance(array, list) != isinstance(fact, SequenceFact) and isinstance(fact, TensorFact | SequenceFact):
            if array is not None:
                yield f"{value.name} is {type(array).__name__}, {fact} claimed"
            continue
        if not isinstance(fact, TensorFact) or array is None or fact.shape is None:
            continue
        array = np.asarray(array)
        if array.ndim != len(fact.shape):
            yield f"{value.name} has shape {list(array.shape)}, {fact} claimed"
            continue
        for extent, dim in zip(array.shape, fact.shape, strict=True):
            try:
                claimed = graph.extents.evaluate(dim, sizes)
            except KeyError:  # only a run determines the symbol
                continue
            if claimed != extent:
                yield f"{value.name} has shape {list(array.shape)}, {fact} with {dict(sizes)} claimed"


def twice(graph: Graph, arrays: Arrays) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Return the outputs of two runs of one session, and those of both halves of a doubled and simplified graph.

    The first outputs are copies, so that a second run that overwrites results of the first is detected.

    Raises:
        Opaque: a node has no canonical form.
        AssertionError: a run has changed its inputs.
    """
    found = canonical(graph)
    given = [array.copy() if isinstance(array, np.ndarray) else array for array in arrays]
    feeds = {value.name: array for value, array in zip(found.inputs, given, strict=False)}
    session = prepare(found, "reference")
    first = session.run(feeds)
    kept = {name: array.copy() if isinstance(array, np.ndarray) else array for name, array in first.items()}
    second = session.run(feeds)
    changed = [
        value.name
        for value, now, before in zip(found.inputs, given, arrays, strict=False)
        if isinstance(now, np.ndarray) and now.tobytes() != before.tobytes()
    ]
    if changed:
        raise AssertionError(f"a run changed the inputs {', '.join(changed)}")
    names = [value.name for value in found.outputs]
    halves = computed(_doubled(found), feeds)
    one, two = halves[: len(names)], halves[len(names) :]
    return [kept[name] for name in names], [second[name] for name in names], one, two


def _doubled(graph: Graph) -> Graph:
    """Duplicate every node, with the results of both halves as outputs, and simplify."""
    twin = rewrite.copy(graph)
    pairs: dict[Value, Value] = {}
    for node in list(twin):
        if any(True for _ in node.bodies()):
            pairs |= {value: value for value in node.results}
            continue
        fresh = rewrite.copy_node(node, {value: pairs.get(value, value) for value in node.operands})
        for value in fresh.results:
            value.name = twin.fresh(value.name)
        twin.append(fresh)
        pairs |= {old: new for old, new in zip(node.outputs, fresh.outputs, strict=True) if old and new}
    twin.set_outputs([*twin.outputs, *(pairs.get(value, value) for value in twin.outputs)])
    run_passes(twin, SIMPLIFY)
    return twin
