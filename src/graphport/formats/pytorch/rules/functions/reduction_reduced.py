"""Reductions with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.rules.binding import axes_of, scalar_of, vector
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef


def reduced(b: Builder, op_def: OpDef, x: Value, dim: Any, *, keepdim: Any) -> Value:
    """Reduce `x` over the axes `dim`; `None` means all."""
    rank = len(b.dims(x))
    keeps = 1 if scalar_of(keepdim) else 0
    if not rank:
        return x
    return b(op_def, x, vector(b, axes_of(dim, rank)), keepdims=None if keeps else 0)


def named(b: Builder, operator: str, x: Value, dim: Any, *, keepdim: Any) -> Value:
    """Like `reduced` with the operator by name; rule rows call this `reduced`."""
    return reduced(b, registry.op_defs()[operator], x, dim, keepdim=keepdim)
