"""Simulate the rounding errors of a graph: results of each operator that rounds are changed by its own error.

Correct implementations differ at most as much as two simulated runs. Results that are exact in the element type are
not changed, so that exact ties remain ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.backends.interpreter import InterpreterSession
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Graph

_WIDER = {"float32": np.float64, "float16": np.float32}


class NoisySession(InterpreterSession):
    """A graph in which each operator that rounds adds a rounding error to its results."""

    def __init__(self, graph: Graph, seed: int) -> None:
        random = np.random.default_rng(seed)
        op_defs: Mapping[str, Callable[..., Any]] = registry.op_defs()
        moved = {
            name: _moved(op_def, random) if op_def.exactness != "exact" else op_def
            for name, op_def in registry.op_defs().items()
        }
        super().__init__(graph, {**op_defs, **moved})


def _moved(function: Callable[..., Any], random: np.random.Generator) -> Callable[..., Any]:
    def compute(*operands: Any, **attributes: Any) -> Any:
        results = function(*operands, **attributes)
        exact = _computed_wider(function, operands, attributes)
        if not isinstance(results, tuple):
            return _with_error(results, exact, random)
        several = cast("tuple[Any, ...]", results)
        wider = cast("tuple[Any, ...]", exact) if isinstance(exact, tuple) else (None,) * len(several)
        return tuple(_with_error(x, y, random) for x, y in zip(several, wider, strict=False))

    return compute


def _computed_wider(function: Callable[..., Any], operands: tuple[Any, ...], attributes: Mapping[str, Any]) -> Any:
    """Compute an operator in a wider float type; `None` if no operand is widened or it fails."""
    wide = [_widened(operand) for operand in operands]
    if all(x is y for x, y in zip(wide, operands, strict=True)):
        return None
    try:
        return function(*wide, **attributes)
    except (ValueError, TypeError, IndexError, ArithmeticError, LookupError):
        return None


def _widened(operand: Any) -> Any:
    dtype = getattr(operand, "dtype", None)
    wide = None if dtype is None else _WIDER.get(dtype.name)
    return operand if wide is None else operand.astype(wide)


def _with_error(result: Any, exact: Any, random: np.random.Generator) -> Any:
    """Add or subtract twice the rounding error, at least one ulp, at each element that is not exact."""
    dtype = getattr(result, "dtype", None)
    if dtype is None or dtype.kind != "f" or dtype.name not in {"float32", "float16", "float64"}:
        return result
    step = np.abs(np.spacing(result))
    if exact is not None and np.shape(exact) == np.shape(result) and exact.dtype.kind == "f":
        error = np.abs(exact - result.astype(exact.dtype))
        step = np.where(error == 0, 0, np.maximum(step, 2 * error))
    moved = result + (random.integers(0, 2, np.shape(result)) * 2 - 1) * np.where(np.isfinite(step), step, 0)
    return moved.astype(dtype)
