"""Words of tract's NNEF: what a lowering is given, and how the standard's rules serve where nothing else is said.

A node's operands are its tensors, then the attributes that only a run knows; its attribute `wires` names those.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.formula import broadcast_word, emitted_word
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.folded import folded
from graphport.ops.lowering.leading_broadcast import append_axes
from graphport.ops.lowering.table import Rows

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ops.builder import Builder

DIALECT = "tract"
WIRES = "wires"
Numbers: TypeAlias = "tuple[int, ...] | Value"
"""An attribute that is a list of integers, or a tensor of them."""
_STATED = frozenset({"int", "float", "bool", "str", "tuple[int, ...]", "tuple[float, ...]"})
"""Annotations of attributes that only the text gives."""


def word(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a lowering of these words; an attribute that only a run knows is handed over as a tensor."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def stated() -> frozenset[str]:
            # Asked for when a word is met: what a row takes is read from its text.
            parameters = inspect.signature(function).parameters.values()
            return frozenset(each.name for each in parameters if each.annotation in _STATED)

        @wraps(function)
        def lowered(b: Builder, *operands: Value | None, wires: tuple[str, ...] = (), **attributes: Any) -> Any:
            tensors, given = split_operands(operands, wires)
            computed = next((name for name in given if name in stated()), None)
            if computed is not None:
                message = f"{computed} is computed"
                raise UnsupportedError(message)
            try:
                inspect.signature(function).bind(b, *tensors, **attributes, **given)
            except TypeError as error:
                raise ShapeError(str(error)) from error
            return function(b, *tensors, **attributes, **given)

        for name in names:
            lower(DIALECT, name)(lowered)
        return function

    return register


def split_operands(
    operands: Sequence[Value | None], wires: Sequence[str]
) -> tuple[Sequence[Value | None], dict[str, Value]]:
    """The tensors of a node, and its attributes that are tensors."""
    count = len(operands) - len(wires)
    given = {name: value for name, value in zip(wires, operands[count:], strict=True) if value is not None}
    return operands[:count], given


def inherited(
    rule: Callable[..., Any], b: Builder, *operands: Value | None, wires: tuple[str, ...] = (), **given: Any
) -> Any:
    """What the standard's `rule` makes of a node whose word tract has from it.

    Raises:
        UnsupportedError: an attribute is known at run time only.
    """
    tensors, waiting = split_operands(operands, wires)
    known: Mapping[str, Any] = {name: known_numbers(value) for name, value in waiting.items()}
    try:
        inspect.signature(rule).bind(b, *tensors, **given, **known)
    except TypeError as error:
        raise ShapeError(str(error)) from error
    return rule(b, *tensors, **given, **known)


def known_numbers(value: Value) -> Any:
    """The number or numbers of an attribute that is a tensor.

    Raises:
        UnsupportedError: they are known at run time only.
    """
    found = elements(value)
    if found is None:
        storage = folded(value)
        if storage is None or storage.count > 4096:
            message = f"the attribute {value.name} is known at run time only"
            raise UnsupportedError(message)
        return storage.numpy().tolist()
    is_one = isinstance(value.fact, TensorFact) and value.fact.shape == ()
    return found[0] if is_one else found


def elements(value: Value) -> tuple[Dim, ...] | None:
    """What is known of integers."""
    fact = value.fact
    if isinstance(fact, TensorFact) and fact.elements is not None:
        return tuple(fact.elements)
    storage = value.storage
    if storage is not None and storage.dtype.is_integer and storage.count <= 4096:
        return tuple(int(x) for x in storage.numpy().reshape(-1))
    return None


def static(given: Numbers) -> tuple[int, ...] | None:
    """The integers of an attribute, where all of them are known."""
    found = elements(given) if isinstance(given, Value) else given
    if found is None or any(isinstance(each, Symbolic) for each in found):
        return None
    return tuple(each for each in found if isinstance(each, int))


def number(given: int | Value) -> int:
    """An integer that has to be known.

    Raises:
        UnsupportedError: it is known at run time only.
    """
    if not isinstance(given, Value):
        return int(given)
    found = static(given)
    if not found:
        message = f"{given.name} is known at run time only"
        raise UnsupportedError(message)
    return found[0]


def vector(b: Builder, given: Numbers | int) -> Value:
    """Integers as int64[n]."""
    if not isinstance(given, Value):
        return b.constant(np.asarray(given, np.int64).reshape(-1))
    known = static(given)
    if known is not None:
        return b.constant(np.array(known, np.int64))
    pages = registry.pages()
    wide = b(pages["Cast"], given, to=DType.INT64)
    return wide if len(b.dims(given)) == 1 else b(pages["Reshape"], wide, b.constant(np.array([-1], np.int64)))


def axis_of(axis: int | Value, rank: int) -> int:
    """An axis, which may count from the end, counted from 0.

    Raises:
        ShapeError: there is no such axis.
    """
    place = number(axis)
    if not -rank <= place < rank:
        message = f"axis {place} is outside of a tensor of rank {rank}"
        raise ShapeError(message)
    return place % rank


def unified(b: Builder, *operands: Value) -> list[Value]:
    """Operands of one element type: a constant of one entry takes that of the others, else the widest counts."""
    types = [value.dtype for value in operands]
    known = [dtype for dtype in types if dtype is not None]
    if len(known) < len(types) or len(set(known)) < 2:
        return list(operands)
    firm = [dtype for value, dtype in zip(operands, known, strict=True) if not _is_one_number(value)] or known
    wide = _widest(firm)
    cast = registry.pages()["Cast"]
    found: list[Value] = []
    for value, dtype in zip(operands, known, strict=True):
        if dtype is wide:
            found.append(value)
        elif value.storage is not None and value.is_constant and value.storage.count == 1:
            if DType.STRING in (dtype, wide):
                message = f"operands are {', '.join(map(str, dict.fromkeys(known)))}"
                raise ShapeError(message, "strings go with strings only")
            found.append(b.constant(value.storage.numpy().astype(wide.numpy), wide))
        else:
            found.append(b(cast, value, to=wide))
    return found


def _is_one_number(value: Value) -> bool:
    if value.storage is not None and value.is_constant:
        return value.storage.count == 1
    shape = value.shape
    return value.producer is not None and shape is not None and all(n == 1 for n in shape) and _is_folded(value)


def _is_folded(value: Value) -> bool:
    storage = folded(value)
    return storage is not None


def _widest(types: Sequence[DType]) -> DType:
    reals = [dtype for dtype in types if dtype.is_floating]
    chosen = reals or [dtype for dtype in types if dtype.is_integer] or list(types)
    return max(chosen, key=lambda dtype: (dtype.bits, dtype.kind == "i"))


def aligned(b: Builder, *operands: Value) -> list[Value]:
    """Operands of elementwise words, which come to one type and align from the left."""
    return append_axes(b, *unified(b, *operands))


def _is_double(_b: Builder, x: Value) -> bool:
    return x.dtype is DType.FLOAT64


_FUNCTIONS = {"aligned": aligned, "is_double": _is_double, "trailed": append_axes, "unified": unified}
ROWS = Rows(DIALECT, _FUNCTIONS, emit=emitted_word, register=word)
BROADCAST = replace(ROWS, emit=broadcast_word)
"""Rows of elementwise words: their operands align at the first axis there."""
