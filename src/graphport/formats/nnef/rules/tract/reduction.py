"""Reductions in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.reduction import reduced
from graphport.formats.nnef.rules.tract.binding import DIALECT, axis_of, import_rule
from graphport.formats.nnef.rules.tract.rule_table import static_integers
from graphport.ops import registry
from graphport.ops.declare import ShapeError, UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_core_product_reduce")
def product_reduce(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """Product over axes, which are kept with length 1."""
    rank = len(b.dims(input))
    if not axes:
        return input
    chosen = np.array([axis_of(axis, rank) for axis in axes], np.int64)
    return OpBuilder(b)("ReduceProd", input, b.constant(chosen), keepdims=1)


@import_rule("tract_core_argmax_reduce_last")
def argmax_last(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """ArgMax; ties select the last index."""
    return _arg_reduce(b, "ArgMax", input, axes)


@import_rule("tract_core_argmin_reduce_last")
def argmin_last(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """ArgMin; ties select the last index."""
    return _arg_reduce(b, "ArgMin", input, axes)


def _arg_reduce(b: Builder, op_def: str, input: Value, axes: tuple[int, ...]) -> Value:
    if len(axes) != 1:
        message = f"{len(axes)} axes"
        raise ShapeError(message, "use one axis")
    axis = axis_of(axes[0], len(b.dims(input)))
    return OpBuilder(b)(op_def, input, axis=axis, keepdims=1, select_last_index=1)


def _logical(op_def: str, word_: str) -> None:
    """Reduce booleans: tract 0.23 reinterprets the bytes of other types."""

    @import_rule(word_)
    def lowered(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
        dtype = input.dtype
        if dtype is not None and dtype is not DType.BOOL:
            message = f"tract reduces only booleans, but {input.name} is {dtype}"
            raise UnsupportedError(message)
        return reduced(b, registry.op_defs()[op_def], input, axes)

    del lowered


_logical("ReduceMax", "any_reduce")
_logical("ReduceMin", "all_reduce")


# Export rules


@export_rule(DIALECT, "ReduceProd")
def export_product(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Any:
    rank = len(b.dims(data))
    known = tuple(range(rank)) if axes is None else static_integers(axes)
    if not known:
        return None
    return _emit_reduction(b, "tract_core_product_reduce", data, tuple(axis % rank for axis in known), keepdims)


def _emit_reduction(b: Builder, import_rule: str, data: Value, axes: tuple[int, ...], keepdims: int) -> Any:
    dims = b.dims(data)
    fact = TensorFact(None, tuple(1 if axis in axes else dim for axis, dim in enumerate(dims)))
    y = b.emit(import_rule, data, facts=[fact], axes=axes)
    return y if keepdims else b.emit("squeeze", *y, axes=axes)


def _arg(op_def: str, import_rule: str) -> None:
    @export_rule(DIALECT, op_def)
    def exported(b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        name = f"tract_core_{import_rule}_last" if select_last_index else import_rule
        return _emit_reduction(b, name, data, (axis % len(b.dims(data)),), keepdims)

    del exported


_arg("ArgMax", "argmax_reduce")
_arg("ArgMin", "argmin_reduce")
