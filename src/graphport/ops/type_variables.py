"""Binding of an operator's type variables to the dtypes of a node's operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN, OptionalFact, SequenceFact, TensorFact
from graphport.ops.declare import ElementTypeError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.ops.declare import OpDef
    from graphport.ops.types import Types

_FORMS: dict[type[Fact], str] = {TensorFact: "tensor", SequenceFact: "sequence", OptionalFact: "optional"}


def bind(op_def: OpDef, operands: Sequence[Fact | None]) -> dict[str, DType]:
    """Return the dtypes of the type variables by name.

    Raises:
        ShapeError: there are too few or too many operands, a required one is absent, a rank violates the signature,
            or two
            operands of one type variable have different dtypes.
        ElementTypeError: a type variable does not admit the dtype of an operand.
    """
    signature = op_def.signature
    if len(operands) < signature.least:
        message = f"{len(operands)} operands, at least {signature.least} are needed"
        raise ShapeError(message)
    bound: dict[str, DType] = {}
    for index, fact in enumerate(operands):
        operand = signature.operand(index)
        if operand is None:
            message = f"{len(operands)} operands, expected at most {len(signature.operands)}"
            raise ShapeError(message)
        if fact is None:
            if not operand.is_optional:
                message = f"operand {index}, {operand.name}, is absent"
                raise ShapeError(message, "only optional operands can be")
            continue
        if operand.rank is not None and isinstance(fact, TensorFact) and (fault := operand.rank.fault(fact.shape)):
            message = f"{operand.name} {fault}"
            raise ShapeError(message)
        if operand.types is not None:
            _bind_type(operand.name, operand.types, fact, bound)
    return bound


def _bind_type(name: str, types: Types, fact: Fact, bound: dict[str, DType]) -> None:
    if types.form == "any":
        return
    if types.form != _FORMS[type(fact)]:
        if fact == UNKNOWN:
            return
        message = f"{name} is {fact}, no {types.form}"
        raise ShapeError(message)
    while not isinstance(fact, TensorFact):
        fact = fact.element
    if fact.dtype is None:
        return
    if fact.dtype not in types.dtypes:
        message = f"{name} is {fact.dtype}"
        expected = f"expected {', '.join(sorted(map(str, types.dtypes)))}"
        is_index = all(dtype.is_integer for dtype in types.dtypes) and not fact.dtype.is_integer
        raise ElementTypeError(message, expected, dtype=fact.dtype, is_index=is_index)
    if bound.setdefault(types.name, fact.dtype) is not fact.dtype:
        message = f"{name} is {fact.dtype}, another operand {bound[types.name]}"
        raise ShapeError(message, "both must have equal element types; cast one operand")


def result_types(op_def: OpDef, count: int) -> tuple[Types | None, ...]:
    """Return the dtypes of `count` results."""
    types = op_def.signature.results
    return types * max(count, 1) if op_def.is_variadic_output and len(types) == 1 else types


def result_dtype(types: Types | None, bound: Mapping[str, DType]) -> DType | None:
    """Return the dtype of a result for bound type variables; `None` if they do not determine it."""
    if types is None or types.form != "tensor":
        return None
    if types.name in bound:
        return bound[types.name]
    return next(iter(types.dtypes)) if len(types.dtypes) == 1 else None
