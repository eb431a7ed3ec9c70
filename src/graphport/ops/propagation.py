"""Propagation of elements of short integer tensors, by running operator definitions on symbolic dims."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic, Undecided, bounds, dim_of, element
from graphport.core.facts import MOST_ELEMENTS, MOST_RANK, MOST_REALS, OPEN_ELEMENT, TensorFact
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute
    from graphport.ops.declare import OpDef


MAX_FACTOR = 256
"""Largest float constant in arithmetic on dims: float32 represents its product with a dim below 65536 exactly."""


def with_elements(
    op_def: OpDef, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], facts: list[Any]
) -> list[Any]:
    """Add the elements of short results to their facts, computed by the operator definition."""
    if _is_computed_in_floats(op_def, operands):
        return _with_float_elements(op_def, operands, attributes, facts)
    wanted = [index for index, fact in enumerate(facts) if _takes_elements(fact)]
    if not wanted or not operands:
        return facts
    if op_def.moves_data and op_def.symbolic:
        operands = _open_unknown_operands(op_def, operands)
    arrays: list[Any] = []
    for operand in operands:
        if operand is None:
            arrays.append(None)
        elif isinstance(operand, TensorFact) and operand.elements is not None and operand.dtype is not None:
            arrays.append(_array(operand))
        else:
            return facts
    if not op_def.symbolic and any(array is not None and array.dtype == object for array in arrays):
        return facts
    numbers = _arrays_as_attributes(attributes)
    try:
        with np.errstate(all="ignore"):
            answer = op_def.function(*arrays, **numbers)
    except (Undecided, ArithmeticError, IndexError, TypeError, ValueError):
        # NumPy raises TypeError for a symbolic dim where it needs an integer, for example as an index.
        return facts
    results: Any = answer if is_sequence(answer) else (answer,)
    for index in wanted:
        flat: np.ndarray[Any, Any] = np.asarray(results[index]).reshape(-1)
        facts[index] = facts[index].with_elements([int(x) if isinstance(x, bool) else dim_of(x) for x in flat.tolist()])
    return facts


def _arrays_as_attributes(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    return {name: a.numpy() if isinstance(a, Storage) else a for name, a in attributes.items()}


def _is_float(fact: Fact | None) -> bool:
    return isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.kind == "f"


def _is_computed_in_floats(op_def: OpDef, operands: Sequence[Fact | None]) -> bool:
    """Whether a float operand has elements known from dims, or data movement has only known float operands."""
    floats = [fact for fact in operands if isinstance(fact, TensorFact) and _is_float(fact)]
    if any(fact.elements is not None for fact in floats):
        return True
    return op_def.moves_data and bool(floats) and all(fact.reals is not None for fact in floats)


def _with_float_elements(
    op_def: OpDef, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], facts: list[Any]
) -> list[Any]:
    """Add the elements of a float result that float32 computes exactly from dims.

    Before  floor(float(H) * 2.0) / float(H)
    After   2.0

    Does not apply to fractions and to products of two dims.
    """
    fact = facts[0]
    if len(facts) > 1 or not isinstance(fact, TensorFact) or not _is_float(fact) or not _is_small(fact):
        return facts
    arrays = [None if operand is None else _exact_array(operand) for operand in operands]
    if any(array is None and operand is not None for array, operand in zip(arrays, operands, strict=True)):
        return facts
    try:
        answer = _compute_exactly(op_def, arrays, _arrays_as_attributes(attributes))
        found = None if answer is None else [dim_of(x) for x in np.asarray(answer).reshape(-1).tolist()]
    except (Undecided, ArithmeticError, IndexError, TypeError, ValueError):
        return facts
    if found is None:
        return facts
    numbers = [dim for dim in found if isinstance(dim, int)]
    is_constant = len(numbers) == len(found)
    return [replace(fact, reals=tuple(map(float, numbers))) if is_constant else fact.with_elements(found)]


def _is_small(fact: TensorFact) -> bool:
    """Whether a float tensor has few enough elements for a fact."""
    lengths = [n for n in fact.shape or () if isinstance(n, int)]
    return fact.shape is not None and len(lengths) == len(fact.shape) <= MOST_RANK and prod(lengths) <= MOST_REALS


def _exact_array(fact: Fact) -> np.ndarray[Any, Any] | None:
    """Return known elements as an array of integers and dims; `None` if one is a fraction."""
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        return None
    if fact.elements is None and fact.reals is not None:
        if not all(real.is_integer() and abs(real) <= MAX_FACTOR for real in fact.reals):
            return None
        fact = replace(fact, elements=tuple(map(int, fact.reals)))
    if fact.elements is None:
        return None
    if not _is_float(fact):
        return _array(fact)
    array = np.empty(len(fact.elements), object)
    array[:] = [element(dim) for dim in fact.elements]
    return array.reshape(_element_shape(fact))


def _compute_exactly(op_def: OpDef, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Compute a float operation on integers and dims; `None` if float32 may round its result."""
    match op_def.name, arrays:
        case (("Floor" | "Ceil" | "Round"), [x]):
            return x
        case "Mul", [a, b]:
            return a * b if _is_constant(a) or _is_constant(b) else None
        case "Div", [a, b]:
            return _quotients(a, b)
        case _:
            is_supported = op_def.name in ("Add", "Sub") or (op_def.moves_data and op_def.symbolic)
            return op_def.function(*arrays, **attributes) if is_supported else None


def _is_constant(array: np.ndarray[Any, Any]) -> bool:
    return all(isinstance(x, int) for x in array.reshape(-1).tolist())


def _quotients(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Divide dims; `None` if a quotient is not an integer in every run."""
    pairs = [(dim_of(x), dim_of(y)) for x, y in np.broadcast(a, b)]
    found = [x // y for x, y in pairs]
    if any(q * y != x or (bounds(y)[0] or 0) < 1 for q, (x, y) in zip(found, pairs, strict=True)):
        return None
    return np.array([element(dim) for dim in found], object)


def _open_unknown_operands(op_def: OpDef, operands: Sequence[Fact | None]) -> Sequence[Fact | None]:
    """Replace data-dependent operands by open dims if they are only moved next to known elements.

    One dim computed in floating point then leaves the other dims of a shape known.
    """
    names = [each and each.name for each in map(op_def.signature.operand, range(len(operands)))]
    moved = [each for each, name in zip(operands, names, strict=True) if name not in op_def.index_operands]
    if not any(isinstance(each, TensorFact) and each.elements is not None for each in moved):
        return operands
    return [_open_element(each) if each in moved and _takes_elements(each) else each for each in operands]


def _open_element(fact: Fact | None) -> Fact | None:
    if not isinstance(fact, TensorFact):
        return fact
    return fact.with_elements([OPEN_ELEMENT] * prod(n for n in fact.dims if isinstance(n, int)))


def _takes_elements(fact: Fact | None) -> bool:
    if not isinstance(fact, TensorFact) or fact.elements is not None or fact.dtype is None or fact.shape is None:
        return False
    if not (fact.dtype.is_integer or fact.dtype.kind == "b") or len(fact.shape) > MOST_RANK:
        return False
    lengths = [n for n in fact.shape if isinstance(n, int)]
    return len(lengths) == len(fact.shape) and prod(lengths) <= MOST_ELEMENTS


def _array(fact: TensorFact) -> np.ndarray[Any, Any]:
    elements, dtype = fact.known_elements, fact.dtype
    if dtype is not None and not any(isinstance(dim, Symbolic) for dim in elements):
        return np.array(elements, dtype.numpy).reshape(_element_shape(fact))
    array = np.empty(len(elements), object)
    array[:] = [element(dim) for dim in elements]
    return array.reshape(_element_shape(fact))


def _element_shape(fact: TensorFact) -> tuple[int, ...]:
    """Return the shape of an array of all elements; a single axis has as many as there are."""
    lengths = tuple(n for n in fact.dims if isinstance(n, int))
    return lengths if len(lengths) == fact.rank else (-1,)
