"""Export rules of scatter, masks and triangles to PNNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, KEYS, called, constant_elements, weight_of
from graphport.formats.pytorch.rules.functions.indexing import counted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.indexing import Compress, GatherND, NonZero, OneHot, ScatterND, Trilu, Unique
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.shapes import broadcast
from graphport.ops.views.indexing import ScatterElementsView


@Trilu.export_rule(DIALECT)
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Value | None:
    diagonal = 0 if k is None else None if (known := weight_of(k)) is None else int(known.numpy().reshape(-1)[0])
    if diagonal is None:
        return None
    return called(b, "torch.triu" if upper else "torch.tril", input=input, diagonal=diagonal)


@NonZero.export_rule(DIALECT)
def export_nonzero(b: Builder, x: Value) -> Value | None:
    """Export NonZero: the transpose of PyTorch's result."""
    if not b.dims(x):
        return None
    rows = called(b, "torch.nonzero", TensorFact(DType.INT64, None), input=x)
    return called(b, "Tensor.permute", input=rows, dims=(1, 0))


@Unique.export_rule(DIALECT)
def export_unique(b: Builder, x: Value, *, axis: int | None = None, sorted: int = 1) -> Value | None:
    """Export Unique with sorted values and without further results."""
    if b.count > 1 or axis is not None or not sorted:
        return None
    return called(b, "torch.unique", input=x, sorted=True)


@Compress.export_rule(DIALECT)
def export_compress(b: Builder, input: Value, condition: Value, *, axis: int | None = None) -> Value | None:
    """Export Compress with a constant mask as indices."""
    known = constant_elements(condition)
    if known is None or axis is None:
        return None
    indices = np.flatnonzero(known)
    return called(b, "torch.index_select", input=input, index=b.constant(indices.astype(np.int64)), dim=axis)


@ScatterElementsView.export_rule(DIALECT)
def export_scatter_elements(b: Builder, op: ScatterElementsView) -> Value | None:
    index = counted(b, op.indices, b.dims(op.data)[op.axis])
    if index is None:
        return None
    if op.reduction == "none":
        return called(b, "torch.scatter", input=op.data, index=index, src=op.updates, dim=op.axis)
    ways = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return called(
        b,
        "torch.scatter_reduce",
        input=op.data,
        index=index,
        src=op.updates,
        dim=op.axis,
        reduce=ways[op.reduction],
        include_self=True,
    )


def _columns(b: Builder, indices: Value) -> list[Value] | None:
    """Return the indices along each axis."""
    dims = b.dims(indices)
    count = dims[-1] if len(dims) > 1 else None
    if not isinstance(count, int) or not count:
        return None
    facts = [TensorFact(dtype_of(indices), dims[:-1])] * count
    return list(b.emit("torch.unbind", indices, facts=facts, dim=len(dims) - 1))


@GatherND.export_rule(DIALECT)
def export_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Value | None:
    columns = _columns(b, indices) if not batch_dims else None
    if columns is None:
        return None
    keys: dict[str, Any] = {KEYS: ("input", "expr")}
    return b.emit("Tensor.index", data, _listed(b, columns), **keys)[0]


@ScatterND.export_rule(DIALECT)
def export_scatter_nd(
    b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value | None:
    columns = _columns(b, indices) if reduction in ("none", "add") else None
    if columns is None:
        return None
    keys: dict[str, Any] = {KEYS: ("input", "indices", "values")}
    operands = (data, _listed(b, columns), updates)
    return b.emit("Tensor.index_put", *operands, accumulate=reduction == "add", **keys)[0]


def _listed(b: Builder, columns: Sequence[Value]) -> Value:
    """Emit tensors as the list that PyTorch's index operators expect."""
    references = ",".join(f"@{index}" for index in range(len(columns)))
    return b.emit("Expression", *columns, expr=f"[{references}]")[0]


@OneHot.export_rule(DIALECT)
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value | None:
    """Export OneHot: compare the range of the new axis with the normalized indices."""
    known, count = weight_of(values), weight_of(depth)
    if known is None or count is None or known.dtype.kind not in "bif":
        return None
    size = int(count.numpy().reshape(-1)[0])
    dims = b.dims(indices)
    place = axis % (len(dims) + 1)
    wide = called(
        b, "torch.unsqueeze", TensorFact(dtype_of(indices), (*dims[:place], 1, *dims[place:])), input=indices, dim=place
    )
    rows = np.arange(reserve(size)).reshape(-1, *[1] * (len(dims) - place))
    fact = TensorFact(DType.BOOL, broadcast(b.dims(wide), tuple(rows.shape)))
    hits = [
        called(b, "torch.eq", fact, input=wide, other=b.constant(each, dtype_of(indices)))
        for each in (rows, rows - size)
    ]
    hit = called(b, "torch.logical_or", fact, input=hits[0], other=hits[1])
    off, on = (b.constant(known.numpy()[each : each + 1], known.dtype) for each in (0, 1))
    return called(b, "torch.where", condition=hit, input=on, other=off)
