"""Reshape operators of exported programs, declarations of their views, and overloads that PNNX lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axes_of, axis_of, length, named_dtype, scalar_of
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.formats.pytorch.rules.overloads import FUNCTIONAL, RULES, aten, view
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import BitCast
from graphport.ops.definitions.reduction import ReduceProd
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, transposed


def _inverse_permutation(attributes: Mapping[str, Any]) -> dict[str, Any]:
    dims = attributes["dims"]
    order = [axis % len(dims) for axis in dims]
    return {"dims": tuple(order.index(axis) for axis in range(len(order)))}


def _swapped(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"source": attributes["destination"], "destination": attributes["source"]}


view("aten.alias", "aten.detach", "aten.lift_fresh", "aten.requires_grad", "aten.view_as", kind="same")
view("aten.view", "aten.unsqueeze", "aten.squeeze", "aten.unflatten", "aten.swapdims", kind="reshape")
view("aten.reshape", "aten.flatten", "aten.ravel", "aten.reshape_as", kind="reshape", doubt="layout")
view("aten.contiguous", kind="same", doubt="contiguous")
view("aten.to", "aten.type_as", kind="same", doubt="cast")
view("aten.dropout", kind="same", doubt="training")
view("aten.transpose", kind="undo", op_type="aten.transpose.int")
view("aten.swapaxes", kind="undo", op_type="aten.swapaxes.default")
view("aten.t", kind="undo", op_type="aten.t.default")
view("aten.mT", kind="undo", op_type="aten.mT.default")
view("aten.numpy_T", kind="undo", op_type="aten.numpy_T.default")
view("aten.permute", kind="undo", op_type="aten.permute.default", inverse=_inverse_permutation)
view("aten.movedim", kind="undo", op_type="aten.movedim.int", inverse=_swapped)
view("aten.expand", "aten.expand_as", "aten.broadcast_to", "aten.unfold", kind="never")
view("aten.real", "aten.imag", kind="never")
view("aten.view_as_real", kind="undo", op_type="aten.view_as_complex.default")
view("aten.view_as_complex", kind="undo", op_type="aten.view_as_real.default")
FUNCTIONAL["aten.copy_"] = "aten.copy"


RULES.lower("""
aten.alias, aten.lift_fresh, aten.lift_fresh_copy, aten.detach, aten.requires_grad,
    aten.resolve_conj(self, requires_grad: ignored = None) -> self
# The length of an axis as a tensor of rank 0.
aten.sym_size.int(self, dim) -> Squeeze(Shape(self, start=(place := axis(dim, self)), end=place + 1), [0])
aten.sym_numel(self) -> Size(self)
aten.to.other(self, other, copy: ignored = None) -> cast(self, dtype(other))
aten.ravel(self) -> Reshape(self, [-1])
""")


@aten("aten.copy")
def copy(b: Builder, self: Value, src: Value) -> Value:
    """Return `src` in the shape and element type of `self`."""
    wide = cast(b, src, dtype_of(self))
    known = b.dims(self), b.dims(src)
    return wide if known[0] == known[1] else b(Expand, wide, b(Shape, self))


# ── sizes as integers ─────────────────────────────────────────────────────────────────────────────────────────────────


@aten("aten.sym_stride.int")
def sym_stride(b: Builder, self: Value, dim: Any) -> Value:
    """Return the stride of an axis of a contiguous tensor; strides of other tensors are recorded in the file."""
    rank = len(b.dims(self))
    axis = axis_of(scalar_of(dim), rank)
    return b(ReduceProd, b(Shape, self, start=axis + 1), keepdims=0) if axis + 1 < rank else b.constant(1, DType.INT64)


@aten("aten.sym_storage_offset")
def sym_storage_offset(b: Builder, self: Value) -> Value:
    del self
    return b.constant(0, DType.INT64)


# ── overloads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

RULES.lower("""
aten.swapaxes(self, axis0, axis1) -> aten::transpose(input=self, dim0=axis0, dim1=axis1)
aten.swapdims -> aten::transpose
aten.tensor_split(self, indices=None, tensor_indices_or_sections=None, sections=None, dim=0)
    -> aten::tensor_split(input=self, sections=sections, dim=dim,
                          indices=indices if tensor_indices_or_sections is None else tensor_indices_or_sections)
""")


@aten("aten.view.dtype")
def view_dtype(b: Builder, self: Value, dtype: Any) -> Value:
    """Reinterpret the bits as another element type; the size of the last axis changes with the width."""
    wanted = named_dtype(dtype)
    own = dtype_of(self)
    if wanted is None or wanted is own:
        return self
    if wanted.bits != own.bits:
        message = f"view of {own} as {wanted}, which has a different element size"
        raise UnsupportedError(message)
    return b(BitCast, self, to=wanted)


@aten("aten.mT")
def matrix_transposed(b: Builder, self: Value) -> Value:
    rank = len(b.dims(self))
    return transposed(b, self, [*range(rank - 2), rank - 1, rank - 2])


@aten("aten.atleast_3d")
def atleast_3d(b: Builder, self: Value) -> Value:
    indices = {0: [0, 1, 2], 1: [0, 2], 2: [2]}.get(len(b.dims(self)))
    return self if indices is None else b(Unsqueeze, self, indices)


@aten("aten.cartesian_prod")
def cartesian_prod(b: Builder, tensors: Any) -> Value:
    counts = [length(b.dims(x), 0) for x in tensors]
    if len(tensors) == 1:
        return tensors[0]
    columns: list[Value] = []
    for place, x in enumerate(tensors):
        shape = [-1 if other == place else 1 for other in range(len(tensors))]
        wide = b(Expand, b(Reshape, x, shape), counts)
        columns.append(b(Reshape, wide, [-1, 1]))
    return b(Concat, *columns, axis=1)


@aten("aten.block_diag")
def block_diag(b: Builder, tensors: Any) -> Value:
    """Block-diagonal matrix."""
    alike = promoted(b, *tensors)
    blocks = [x if len(b.dims(x)) == 2 else b(Reshape, x, [1, -1]) for x in alike]
    width = sum(length(b.dims(x), 1) for x in blocks)
    before, rows = 0, []
    for x in blocks:
        own = length(b.dims(x), 1)
        rows.append(padded(b, x, [(0, 0), (before, width - before - own)]))
        before += own
    return b(Concat, *rows, axis=0)


@aten("aten.squeeze")
def squeeze(b: Builder, self: Value, dim: Any = None) -> Value:
    """Remove axes of size 1; open dims are assumed to differ from 1, like in torch.export."""
    dims = b.dims(self)
    axes = axes_of(dim, len(dims)) if dim is not None and dim != () else tuple(range(len(dims)))
    chosen = [axis for axis in axes if dims and dims[axis] == 1]
    return b(Squeeze, self, chosen) if chosen else self


@aten("aten.dstack")
def dstack(b: Builder, tensors: Any) -> Value:
    return b(Concat, *promoted(b, *(atleast_3d(b, x) for x in tensors)), axis=2)
