"""Random inputs for models whose weights are quantized without samples."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import evaluate
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node
from graphport.ops.registry import op_defs
from graphport.quantization.decoder import decoder_of
from graphport.quantization.engine import session
from graphport.quantization.layer import is_large
from graphport.quantization.wide_operators import position_inputs
from graphport.runtimes.inputs import free_sizes, other_sizes, random_inputs

if TYPE_CHECKING:
    from graphport.backends import Session
    from graphport.ir.graph import Graph, Value
    from graphport.quantization.decoder import Decoder

_LENGTH, _TOKENS = 16, 48
"""Default size of open axes besides the batch; and number of tokens, if memory permits."""
_MAX_POSITION = 1000
"""Limit of random positions and timesteps, those of diffusion models."""
_FEW, _MANY = 8, 64
"""Number of random inputs: to measure with, and if indices make them realistic."""
_MAX_MOVES = 8
_MAX_TRIED_SIZES = 8
"""Maximum number of sizes that are tried if the model rejects the first."""


def random_samples(graph: Graph, few: int = _FEW) -> tuple[list[dict[str, Any]], bool]:
    """Return random inputs, and whether they are realistic: only indices into tables of the model, no float inputs.

    A language model reads tokens with empty caches, as at the start of a text. If usual sizes fail, others are tried.

    Raises:
        DiagnosticError: RUN0009 no inputs can be generated.
    """
    rows = _tables_read(graph)
    reader = decoder_of(graph)
    if reader is not None and rows[reader.tokens]:
        is_large_one = is_large(graph)
        runs = None if is_large_one else session(graph)
        for length in (_LENGTH,) if is_large_one else (_TOKENS, _LENGTH):
            drawn = [_tokens(reader, rows[reader.tokens], length, seed) for seed in range(_MANY)]
            if runs is None or _runs(runs, drawn[0]):
                return drawn, True
    facts = [value.fact for value in rows]
    is_likely = any(rows.values()) and not any(
        isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.is_floating for fact in facts
    )
    sizes = free_sizes(graph)
    lengths = (_TOKENS, _LENGTH) if is_likely else (_LENGTH,)
    longer = [{name: length if size > 1 else size for name, size in sizes.items()} for length in lengths]
    fitting = sizes
    if sizes not in longer:
        runs = session(graph)
        tried = chain([*longer, sizes], islice(other_sizes(graph), _MAX_TRIED_SIZES))
        # If no size runs, the caller reports the error.
        fitting = next((each for each in tried if _runs(runs, _random_input(graph, rows, each, 0))), sizes)
    count = _MANY if is_likely else few
    return [_random_input(graph, rows, fitting, seed) for seed in range(count)], is_likely


def random_inputs_at(graph: Graph, length: int) -> dict[str, Any]:
    """Return one input whose open axes, besides the batch, have size `length`."""
    rows = _tables_read(graph)
    reader = decoder_of(graph)
    if reader is not None and rows[reader.tokens]:
        return _tokens(reader, rows[reader.tokens], length, 0)
    sizes = {name: length if size > 1 else size for name, size in free_sizes(graph).items()}
    return _random_input(graph, rows, sizes, 0)


def _tables_read(graph: Graph) -> dict[Value, int]:
    """Return for each input the size of the smallest constant table that it indexes; 0 without one."""
    return {value: _rows(value) for value in graph.inputs if value.storage is None}


def _tokens(reader: Decoder, most: int, length: int, seed: int) -> dict[str, Any]:
    return reader.inputs(np.random.default_rng(seed).integers(0, most, (1, length)))


def _random_input(graph: Graph, rows: dict[Value, int], sizes: dict[str, int], seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    found = random_inputs(graph, seed)
    numbers = graph.extents.evaluate_symbols(sizes)
    positions = position_inputs(graph)
    for value, most in rows.items():
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
            continue
        shape = [dim if isinstance(dim, int) else evaluate(dim, numbers) for dim in fact.shape]
        if value in positions:
            found[value.name] = random.integers(0, _MAX_POSITION, shape).astype(fact.dtype.numpy)
        elif most:
            found[value.name] = random.integers(0, most, shape).astype(fact.dtype.numpy)
        elif fact.dtype.is_integer:
            # Integers that are not indices are usually masks: ones.
            found[value.name] = np.ones(shape, fact.dtype.numpy)
        elif list(found[value.name].shape) != shape:
            found[value.name] = random.normal(size=shape).astype(fact.dtype.numpy)
    return found


def _runs(runs: Session, inputs: dict[str, Any]) -> bool:
    try:
        runs.run(inputs)
    except DiagnosticError:
        return False
    return True


def _rows(value: Value, depth: int = 0) -> int:
    """Return the size of the smallest table that `value` indexes, directly or moved; 0 if there is none."""
    found: list[int] = []
    for node, index in value.uses:
        if not isinstance(node, Node) or node.dialect:
            continue
        op_def = op_defs().get(node.op_type)
        operand = None if op_def is None else op_def.signature.operand(index)
        table = node.operands[0]
        if op_def is not None and operand is not None and operand.name in op_def.index_operands and index:
            axis = node.attributes.get("axis", 0)
            if table.storage is not None and table.storage.shape and isinstance(axis, int):
                found.append(table.storage.shape[axis])
        elif index == 0 and depth < _MAX_MOVES and len(node.results) == 1:
            fact = node.results[0].fact
            is_integer = isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.is_integer
            if is_integer and (rows := _rows(node.results[0], depth + 1)):
                found.append(rows)
    return min(found, default=0)
