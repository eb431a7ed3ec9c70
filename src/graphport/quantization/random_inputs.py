"""Inputs for models whose weights are rounded without samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends.inputs import free_sizes, random_inputs
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import evaluate
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node
from graphport.ops.registry import pages
from graphport.quantization.engine import session

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

_LENGTH = 16
"""Entries of free axes besides that of samples, if the model takes so many."""
_FEW, _MANY = 8, 64
"""Inputs that are drawn: to measure with, and where indices make them like real ones."""
_MOST_MOVES = 8


def random_samples(graph: Graph) -> tuple[list[dict[str, Any]], bool]:
    """Inputs one after another, and whether these are likely: indices into tables of the model and nothing real.

    Raises:
        DiagnosticError: RUN0009 no inputs can be made up.
    """
    free = [value for value in graph.inputs if value.storage is None]
    rows = {value: _rows(value) for value in free}
    facts = [value.fact for value in free]
    is_likely = any(rows.values()) and not any(
        isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.is_floating for fact in facts
    )
    sizes = free_sizes(graph)
    longer = {name: _LENGTH if size > 1 else size for name, size in sizes.items()}
    if longer != sizes and not _runs(graph, _drawn(graph, rows, longer, 0)):
        longer = sizes
    count = _MANY if is_likely else _FEW
    return [_drawn(graph, rows, longer, seed) for seed in range(count)], is_likely


def random_inputs_at(graph: Graph, length: int) -> dict[str, Any]:
    """One input whose free axes, besides that of samples, have `length` entries."""
    rows = {value: _rows(value) for value in graph.inputs if value.storage is None}
    sizes = {name: length if size > 1 else size for name, size in free_sizes(graph).items()}
    return _drawn(graph, rows, sizes, 0)


def _drawn(graph: Graph, rows: dict[Value, int], sizes: dict[str, int], seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    found = random_inputs(graph, seed)
    numbers = graph.extents.numbers(sizes)
    for value, most in rows.items():
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
            continue
        shape = [dim if isinstance(dim, int) else evaluate(dim, numbers) for dim in fact.shape]
        if most:
            found[value.name] = random.integers(0, most, shape).astype(fact.dtype.numpy)
        elif fact.dtype.is_integer:
            # What is no index is a mask, as a rule: nothing is masked.
            found[value.name] = np.ones(shape, fact.dtype.numpy)
        elif list(found[value.name].shape) != shape:
            found[value.name] = random.normal(size=shape).astype(fact.dtype.numpy)
    return found


def _runs(graph: Graph, inputs: dict[str, Any]) -> bool:
    try:
        session(graph).run(inputs)
    except DiagnosticError:
        return False
    return True


def _rows(value: Value, depth: int = 0) -> int:
    """How many entries the least table has that `value` picks from, directly or moved; 0 where it picks from none."""
    found: list[int] = []
    for node, index in value.uses:
        if not isinstance(node, Node) or node.dialect:
            continue
        page = pages().get(node.word)
        operand = None if page is None else page.signature.operand(index)
        table = node.operands[0]
        if page is not None and operand is not None and operand.name in page.index_operands and index:
            axis = node.attributes.get("axis", 0)
            if table.storage is not None and table.storage.shape and isinstance(axis, int):
                found.append(table.storage.shape[axis])
        elif index == 0 and depth < _MOST_MOVES and len(node.results) == 1:
            fact = node.results[0].fact
            is_integer = isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.is_integer
            if is_integer and (rows := _rows(node.results[0], depth + 1)):
                found.append(rows)
    return min(found, default=0)
