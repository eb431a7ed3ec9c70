"""Import rules of tract's operators: how attributes are passed, and inheritance of the standard's rules.

The operands of a node are its tensors, then attributes known only at run time; its attribute `wires` names them.
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
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.lowering.leading_broadcast import append_axes
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ops.builder import Builder

DIALECT = "tract"
WIRES = "wires"
Numbers: TypeAlias = "tuple[int, ...] | Value"
"""An attribute that is a list of integers, or a tensor of them."""
_STATED = frozenset({"int", "float", "bool", "str", "tuple[int, ...]", "tuple[float, ...]"})
"""Annotations of attributes that only the text gives."""


def import_rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an import rule for these operators; run-time attributes are passed as tensors."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def parameters_without_tensors() -> frozenset[str]:
            # Evaluated on first use, because the parameters of a rule row are parsed from its text.
            parameters = inspect.signature(function).parameters.values()
            return frozenset(each.name for each in parameters if each.annotation in _STATED)

        @wraps(function)
        def lowered(b: Builder, *operands: Value | None, wires: tuple[str, ...] = (), **attributes: Any) -> Any:
            tensors, given = split_operands(operands, wires)
            computed = next((name for name in given if name in parameters_without_tensors()), None)
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
    """Apply the standard's `rule` to an operator that tract inherits.

    Raises:
        ShapeError: a required operand is absent.
        UnsupportedError: an attribute is known only at run time.
    """
    tensors, waiting = split_operands(operands, wires)
    known: Mapping[str, Any] = {name: static_elements(value) for name, value in waiting.items()}
    signature = inspect.signature(rule)
    try:
        bound = signature.bind(b, *tensors, **given, **known)
    except TypeError as error:
        raise ShapeError(str(error)) from error
    absent = [n for n, x in bound.arguments.items() if x is None and signature.parameters[n].annotation == "Value"]
    if absent:
        message = f"missing operand {absent[0]}"
        raise ShapeError(message, "pass the operand: it is required")
    return rule(b, *tensors, **given, **known)


def static_elements(value: Value) -> Any:
    """Return the value of an attribute that is a tensor.

    Raises:
        UnsupportedError: it is known only at run time.
    """
    found = elements(value)
    if found is None:
        storage = folded(value)
        if storage is None or storage.count > 4096:
            message = f"the attribute {value.name} is not constant"
            raise UnsupportedError(message)
        return storage.numpy().tolist()
    is_one = isinstance(value.fact, TensorFact) and value.fact.shape == ()
    return found[0] if is_one else found


def elements(value: Value) -> tuple[Dim, ...] | None:
    """Return the known elements of an integer tensor."""
    fact = value.fact
    if isinstance(fact, TensorFact) and fact.elements is not None:
        return tuple(fact.elements)
    storage = value.storage
    if storage is not None and storage.dtype.is_integer and storage.count <= 4096:
        return tuple(int(x) for x in storage.numpy().reshape(-1))
    return None


def static(given: Numbers) -> tuple[int, ...] | None:
    """Return the integers of an attribute if all are static."""
    found = elements(given) if isinstance(given, Value) else given
    if found is None or any(isinstance(each, Symbolic) for each in found):
        return None
    return tuple(each for each in found if isinstance(each, int))


def static_integer(given: int | Value) -> int:
    """Return a static integer.

    Raises:
        UnsupportedError: it is known only at run time.
    """
    if not isinstance(given, Value):
        return int(given)
    found = static(given)
    if not found:
        message = f"{given.name} is not constant"
        raise UnsupportedError(message)
    return found[0]


def vector(b: Builder, given: Numbers | int) -> Value:
    """Integers as int64[n]."""
    if not isinstance(given, Value):
        return b.constant(np.asarray(given, np.int64).reshape(-1))
    known = static(given)
    if known is not None:
        return b.constant(np.array(known, np.int64))
    op_defs = registry.op_defs()
    wide = b(op_defs["Cast"], given, to=DType.INT64)
    return wide if len(b.dims(given)) == 1 else b(op_defs["Reshape"], wide, b.constant(np.array([-1], np.int64)))


def axis_of(axis: int | Value, rank: int) -> int:
    """Normalize a possibly negative axis.

    Raises:
        ShapeError: the axis is out of range.
    """
    place = static_integer(axis)
    if not -rank <= place < rank:
        message = f"axis {place} is outside of a tensor of rank {rank}"
        raise ShapeError(message)
    return place % rank


def unified(b: Builder, *operands: Value) -> list[Value]:
    """Cast operands to one type: a single-element constant takes the others' type, else the widest wins."""
    types = [value.dtype for value in operands]
    known = [dtype for dtype in types if dtype is not None]
    if len(known) < len(types) or len(set(known)) < 2:
        return list(operands)
    firm = [dtype for value, dtype in zip(operands, known, strict=True) if not _is_single_element(value)] or known
    wide = _widest(firm)
    cast = registry.op_defs()["Cast"]
    found: list[Value] = []
    for value, dtype in zip(operands, known, strict=True):
        if dtype is wide:
            found.append(value)
        elif value.storage is not None and value.is_constant and value.storage.count == 1:
            if DType.STRING in (dtype, wide):
                message = f"operands are {', '.join(map(str, dict.fromkeys(known)))}"
                raise ShapeError(message, "use strings for all operands or for none")
            found.append(b.constant(value.storage.numpy().astype(wide.numpy), wide))
        else:
            found.append(b(cast, value, to=wide))
    return found


def _is_single_element(value: Value) -> bool:
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
    """Cast elementwise operands to one type and align them from the left."""
    return append_axes(b, *unified(b, *operands))


def _is_double(_b: Builder, x: Value) -> bool:
    return x.dtype is DType.FLOAT64


_FUNCTIONS = {"aligned": aligned, "is_double": _is_double, "trailed": append_axes, "unified": unified}
RULES = RuleTable(DIALECT, _FUNCTIONS, emit=emitted_word, register=import_rule)
BROADCAST = replace(RULES, emit=broadcast_word)
"""Rules of elementwise operators: operands are aligned at the first axis."""
