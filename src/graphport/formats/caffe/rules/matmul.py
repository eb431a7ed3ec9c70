"""Matrix products in Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import decide_equal, product
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.matmul import Gemm, MatMul
from graphport.ops.definitions.reshape import Flatten, Reshape, Shape
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.views.matmul import GemmView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@layer("InnerProduct", "inner_product_param", bottoms=None)
def inner_product(
    at: Layer, *, num_output: int, bias_term: bool = True, axis: int = 1, transpose: bool = False
) -> tuple[Value, ...]:
    """Flatten the axes of each bottom from `axis` on and multiply by the weights; optionally add a bias."""
    return tuple(_multiplied(at, index, num_output, axis, bias_term, transpose) for index in range(len(at.bottoms)))


def _multiplied(at: Layer, index: int, num_output: int, axis: int, bias_term: bool, transpose: bool) -> Value:
    x, dims = at.bottoms[index], at.dims(index)
    place = at.axis(axis, index)
    depth = product(dims[place:])
    if place == 0:
        message = "axis 0: the batch is multiplied"
        raise UnsupportedError(message)
    weights = at.blob(0, (depth, num_output) if transpose else (num_output, depth))
    bias = at.blob(1, (num_output,), "bias") if bias_term else None
    flat = x if len(dims) == 2 and place == 1 else at.b(Flatten, x, axis=place)
    y = at.b(Gemm, flat, weights, bias, transB=None if transpose else 1)
    if place == 1:
        return y
    shape = [dim for dim in (*dims[:place], num_output) if isinstance(dim, int)]
    if len(shape) == place + 1:
        return at.b(Reshape, y, at.integers(*shape))
    return at.b(Reshape, y, at.b(Concat, at.b(Shape, x, end=place), at.integers(num_output), axis=0))


@GemmView.export_rule("caffe")
def export_gemm(b: Builder, op: GemmView) -> tuple[Value, ...] | None:
    """Export Gemm with constant weights and a bias of one element per column."""
    maps = b.dims(op.b)[0 if op.transB else 1]
    if op.alpha != 1 or (op.c is not None and op.beta != 1) or op.transA or not isinstance(maps, int):
        return None
    bias = None
    if op.c is not None:
        dims = b.dims(op.c)
        if product(dims) != maps or decide_equal(dims[-1] if dims else 1, maps) is not True:
            return None
        bias = op.c if len(dims) == 1 else b.reshaped(op.c, [maps])
        if bias is None:
            return None
    blobs = [op.b] if bias is None else [op.b, bias]
    stated: dict[str, Any] = {"bias_term": None if bias else False, "transpose": None if op.transB else True}
    return in_caffe(b, "InnerProduct", op.a, blobs=blobs, num_output=maps, **stated)


@MatMul.export_rule("caffe")
def export_mat_mul(b: Builder, x: Value, w: Value) -> tuple[Value, ...] | None:
    """Export MatMul with a constant weight matrix."""
    dims, weights = b.dims(x), b.dims(w)
    if len(dims) < 2 or len(weights) != 2 or not isinstance(weights[1], int):
        return None
    stated: dict[str, Any] = {"bias_term": False, "transpose": True, "axis": len(dims) - 1 if len(dims) > 2 else None}
    return in_caffe(b, "InnerProduct", x, blobs=[w], num_output=weights[1], **stated)
