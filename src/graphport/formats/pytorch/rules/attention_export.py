"""Export rules of attention to ATen."""

from __future__ import annotations

from typing import Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, size_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.attention import attention
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, transposed
from graphport.ops.views.attention import AttentionView, RotaryEmbeddingView, TensorScatterView


@AttentionView.export_rule(DIALECT)
def export_attention(b: Builder, op: AttentionView) -> Any:
    """Export Attention as `aten.scaled_dot_product_attention` if possible, else as matrix products and Softmax."""
    is_plain = (
        op.past_key is None and op.nonpad_kv_seqlen is None and op.non_defaults().keys() <= {"is_causal", "scale"}
    )
    if is_plain and b.count == 1 and len(b.dims(op.q)) == 4 and not op.is_causal and op.attn_mask is None:
        heads, groups = b.dims(op.q)[1], b.dims(op.k)[1]
        gqa = {} if heads == groups else {"enable_gqa": True}
        scale = {} if op.scale is None else {"scale": op.scale}
        return aten(b, "scaled_dot_product_attention", op.q, op.k, op.v, None, 0.0, False, **scale, **gqa)
    return attention(b, op)


@RotaryEmbeddingView.export_rule(DIALECT)
def export_rotary_embedding(b: Builder, op: RotaryEmbeddingView) -> Value:
    """Rotary position embedding: rotate channel pairs by position.  Source: ONNX RotaryEmbedding-23."""
    rank = len(b.dims(op.x))
    heads = transposed(b, op.x, (0, 2, 1, 3)) if rank == 4 else reshaped(b, op.x, [0, 0, (op.num_heads or 1), -1])
    size = b.dims(heads)[3]
    if isinstance(size, Symbolic):
        message = "the head size is not constant"
        raise UnsupportedError(message)
    count = op.rotary_embedding_dim or size
    caches = [op.cos_cache, op.sin_cache]
    if op.position_ids is not None:
        caches = [aten(b, "index.Tensor", cache, [cast(b, op.position_ids, DType.INT64)]) for cache in caches]
    cos, sin = (aten(b, "unsqueeze", cache, 2) for cache in caches)
    inner = aten(b, "slice.Tensor", heads, 3, 0, count)
    if op.interleaved:
        first, second = (aten(b, "slice.Tensor", inner, 3, start, count, 2) for start in (0, 1))
    else:
        first, second = (aten(b, "slice.Tensor", inner, 3, *ends) for ends in ((0, count // 2), (count // 2, count)))

    def product(x: Value, y: Value) -> Value:
        return aten(b, "mul.Tensor", x, y)

    real = aten(b, "sub.Tensor", product(cos, first), product(sin, second))
    imaginary = aten(b, "add.Tensor", product(sin, first), product(cos, second))
    if op.interleaved:
        turned = aten(b, "flatten.using_ints", aten(b, "stack", [real, imaginary], -1), -2)
    else:
        turned = aten(b, "cat", [real, imaginary], -1)
    if count < size:
        turned = aten(b, "cat", [turned, aten(b, "slice.Tensor", heads, 3, count, size)], -1)
    turned = cast(b, turned, dtype_of(op.x))
    if rank == 4:
        return transposed(b, turned, (0, 2, 1, 3))
    return aten(b, "flatten.using_ints", turned, -2)


@TensorScatterView.export_rule(DIALECT)
def export_tensor_scatter(b: Builder, op: TensorScatterView) -> Value:
    """Export TensorScatter: replace rows of a cache from a position per sample."""
    rank = len(b.dims(op.past_cache))
    axis = op.axis % rank
    shape = [1] * rank
    shape[axis] = -1
    steps = aten(b, "reshape", aten(b, "arange.start_step", 0, size_of(b, op.update, axis), 1), shape)
    if op.write_indices is not None:
        starts = aten(b, "reshape", cast(b, op.write_indices, DType.INT64), (-1, *[1] * (rank - 1)))
        steps = aten(b, "add.Tensor", steps, starts)
    if op.mode == "circular":
        size = size_of(b, op.past_cache, axis)
        if isinstance(size, Value):
            steps = aten(b, "remainder.Tensor", steps, aten(b, "full", (), size, dtype=DType.INT64))
        else:
            steps = aten(b, "remainder.Scalar", steps, size)
    sizes = [size_of(b, op.update, place) for place in range(rank)]
    return aten(b, "scatter.src", op.past_cache, axis, aten(b, "expand", steps, sizes), op.update)
