"""Reductions with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.rules.binding import axes_of, scalar_of, vector
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef


def reduced(b: Builder, op_def: OpDef, x: Value, dim: Any, *, keepdim: Any) -> Value:
    """Reduce `x` over the axes `dim` by `op_def`; `None` means all axes."""
    rank = len(b.dims(x))
    keeps = 1 if scalar_of(keepdim) else 0
    if not rank:
        return x
    return b(op_def, x, vector(b, axes_of(dim, rank)), keepdims=None if keeps else 0)


def named(b: Builder, operator: str, x: Value, dim: Any, *, keepdim: Any) -> Value:
    """Reduce `x` over the axes `dim` (`None`: all) by the canonical operator with this name."""
    return reduced(b, registry.op_defs()[operator], x, dim, keepdim=keepdim)
