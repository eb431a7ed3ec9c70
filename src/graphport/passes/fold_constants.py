"""Nodes that compute the same in every run, as constants."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import kept
from graphport.core.storage import Storage
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.passes.driver import NODE
from graphport.passes.journal import Journal, Left, NoRoom, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph, Node, Value
    from graphport.ops.declare import Page

MOST_BYTES = 1 << 28
"""Largest result that is computed."""

MOST_GUESSED = 1 << 20
"""Bytes of operands up to which a result is computed whose size is not known before."""

_STORED = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))

_NARROW = 8
_FEW = 64
"""Integers of up to 8 bits are taken for quantized weights, unless they are this few."""


def fold_constants(graph: Graph, journal: Journal) -> None:
    """Compute nodes all of whose operands are constants, and make their results constants.

    Before  v = Transpose(w);  y = MatMul(x, v)
    After   y = MatMul(x, v)   with v among the constants

    The op pages compute. Leaves alone: quantization and casts of weights of few bits to wider ones, which would undo
    how a model is stored; results that would make all weights larger by more than a tenth; what draws random numbers
    or has bodies. Keeps values up to rounding.
    """

    def rule(node: Node) -> str | None:
        page = None if node.dialect else registry.pages().get(node.word)
        if page is None or not _is_constant(node):
            return None
        _check_kind(node)
        freed = _freed(node)
        _check_size(node, freed, journal.room)
        results = _computed(node, page)
        graph = graph_of(node)
        journal.room -= sum(storage.nbytes for _, storage in results) - freed
        for value, storage in results:
            take_over(value, add_constant(graph, storage, value.name))
        graph.remove(node)
        return "computed, it is a constant"

    apply(graph, journal, rule)


def _is_constant(node: Node) -> bool:
    """Whether all that it reads is known, and nothing but its operands matters."""
    if not node.operands or not node.results or any(True for _ in node.bodies()):
        return False
    return all(value.storage is not None and value.is_constant for value in node.operands)


def _check_kind(node: Node) -> None:
    """Refuse what would undo a quantization, or is random."""
    if node.op in _STORED:
        raise Left("it says how a weight is stored")
    page = registry.pages().get(node.word)
    if (page is not None and page.is_random) or (node.op == "Dropout" and node.operand(2) is not None):
        raise Left("it may draw random numbers")
    wide = max((_bits(value) for value in node.results), default=0)
    for value in node.operands:
        storage = value.storage
        if storage is None or not storage.dtype.is_integer or storage.count <= _FEW:
            continue
        if storage.dtype.bits <= _NARROW < wide:
            raise Left(f"{value.name} is stored in {storage.dtype.bits} bits an element, its result is not")


def _check_size(node: Node, freed: int, room: int) -> None:
    sizes = [_nbytes(value) for value in node.results]
    if None in sizes:
        if sum(value.storage.nbytes for value in node.operands if value.storage is not None) > MOST_GUESSED:
            raise Left("how large its result is, is not known")
        return
    size = sum(size for size in sizes if size is not None)
    if size > MOST_BYTES:
        raise Left(f"its result would take {size} bytes")
    if size - freed > max(room, 0):
        raise NoRoom(f"its result of {size} bytes would make the weights larger by {size - freed}", size - freed)


def _bits(value: Value) -> int:
    dtype = value.dtype
    return 0 if dtype is None else dtype.bits


def _nbytes(value: Value) -> int | None:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
        return None
    size = prod(fact.shape)
    return fact.dtype.size(size) if isinstance(size, int) else None


def _freed(node: Node) -> int:
    """Bytes that go with `node`: its own, and its share of operands that go when all their readers are folded."""
    freed = NODE
    for value in dict.fromkeys(node.operands):
        readers = value.users
        if value.storage is not None and not value.is_output and all(map(_goes, readers)):
            freed += value.storage.nbytes // len(readers)
    return freed


def _goes(node: Node) -> bool:
    if node.dialect or not _is_constant(node):
        return False
    try:
        _check_kind(node)
    except Left:
        return False
    return True


def _computed(node: Node, page: Page) -> list[tuple[Value, Storage]]:
    try:
        operands = [None if value is None or value.storage is None else value.storage.numpy() for value in node.inputs]
        attributes = {name: a.numpy() if isinstance(a, Storage) else a for name, a in node.attributes.items()}
        with np.errstate(all="ignore"):
            answer: Any = page(*operands, **attributes)
    except (ShapeError, ValueError, IndexError, ArithmeticError, TypeError, MemoryError) as error:
        raise Left(f"it cannot be computed: {error}") from error
    # A list is one result, a sequence; several results are a tuple.
    answers: Sequence[Any] = cast("tuple[Any, ...]", answer) if isinstance(answer, tuple) else (answer,)
    if len(answers) < len(node.outputs) or any(isinstance(each, list) or each is None for each in answers):
        raise Left("its result is no tensor")
    return [(value, _stored(np.asarray(answers[value.index]), value)) for value in node.results]


def _stored(array: Any, value: Value) -> Storage:
    dtype = value.dtype
    # A page may hand back a view of an operand, in any order of axes.
    return kept(np.ascontiguousarray(array).reshape(array.shape), dtype)
