"""Propagation of elements of short integer tensors, by running operator definitions on symbolic dims."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic, Undecided, dim_of, element
from graphport.core.facts import MOST_ELEMENTS, MOST_RANK, OPEN_ELEMENT, TensorFact
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute
    from graphport.ops.declare import Page


def with_elements(
    page: Page, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], facts: list[Any]
) -> list[Any]:
    """Add the elements of short integer results to their facts, computed by the operator definition."""
    wanted = [index for index, fact in enumerate(facts) if _takes_elements(fact)]
    if not wanted or not operands:
        return facts
    if page.moves_data and page.symbolic:
        operands = _open_unknown_operands(page, operands)
    arrays: list[Any] = []
    for operand in operands:
        if operand is None:
            arrays.append(None)
        elif isinstance(operand, TensorFact) and operand.elements is not None and operand.dtype is not None:
            arrays.append(_array(operand))
        else:
            return facts
    if not page.symbolic and any(array is not None and array.dtype == object for array in arrays):
        return facts
    numbers = {name: a.numpy() if isinstance(a, Storage) else a for name, a in attributes.items()}
    try:
        with np.errstate(all="ignore"):
            answer = page.function(*arrays, **numbers)
    except (Undecided, ArithmeticError, IndexError, TypeError, ValueError):
        # NumPy raises TypeError for a symbolic dim where it needs an integer, for example as an index.
        return facts
    results: Any = answer if is_sequence(answer) else (answer,)
    for index in wanted:
        flat: np.ndarray[Any, Any] = np.asarray(results[index]).reshape(-1)
        facts[index] = facts[index].with_elements([int(x) if isinstance(x, bool) else dim_of(x) for x in flat.tolist()])
    return facts


def _open_unknown_operands(page: Page, operands: Sequence[Fact | None]) -> Sequence[Fact | None]:
    """Replace data-dependent operands by open dims if they are only moved next to known elements.

    One dim computed in floating point then leaves the other dims of a shape known.
    """
    names = [each and each.name for each in map(page.signature.operand, range(len(operands)))]
    moved = [each for each, name in zip(operands, names, strict=True) if name not in page.index_operands]
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
    elements, dtype = fact.known, fact.dtype
    if dtype is not None and not any(isinstance(dim, Symbolic) for dim in elements):
        return np.array(elements, dtype.numpy).reshape(_element_shape(fact))
    array = np.empty(len(elements), object)
    array[:] = [element(dim) for dim in elements]
    return array.reshape(_element_shape(fact))


def _element_shape(fact: TensorFact) -> tuple[int, ...]:
    """Return the shape of an array of all elements; a single axis has as many as there are."""
    lengths = tuple(n for n in fact.dims if isinstance(n, int))
    return lengths if len(lengths) == fact.rank else (-1,)
