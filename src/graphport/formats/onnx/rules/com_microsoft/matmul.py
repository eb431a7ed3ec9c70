"""Products of matrices of ONNX Runtime's own domain: scaled, activated, and of quantized weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import Bits
from graphport.formats.onnx.rules.com_microsoft.binding import (
    activated,
    dequantize,
    dtype_of,
    import_rule,
    only,
    stepped,
)
from graphport.ops.definitions.activation import Gelu, Relu, Sigmoid, Softmax
from graphport.ops.definitions.arithmetic import Add, BitShift, BitwiseAnd, Cast, Mul, Sub
from graphport.ops.definitions.indexing import Gather, ScatterElements
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.matmul import Gemm, MatMul
from graphport.ops.definitions.matmul.quantized import MatMulInteger
from graphport.ops.definitions.quantization import DequantizeLinear, DynamicQuantizeLinear
from graphport.ops.definitions.reduction import ReduceL2, ReduceSum, ReduceSumSquare, TopK
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Transpose, Unsqueeze

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("FusedMatMul")
@import_rule("TransposeMatMul")
def fused_matmul(
    b: Builder,
    x: Value,
    y: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """Matrix product of optionally transposed factors, times `alpha`."""
    only("matrices in the last two axes", holds=not transBatchA and not transBatchB)
    product = b(MatMul, _transposed(b, x) if transA else x, _transposed(b, y) if transB else y)
    return product if alpha == 1 else b(Mul, product, alpha)


def _transposed(b: Builder, x: Value) -> Value:
    rank = len(b.dims(x))
    return x if rank < 2 else b(Transpose, x, perm=(*range(rank - 2), rank - 1, rank - 2))


@import_rule("FusedGemm")
def fused_gemm(
    b: Builder,
    x: Value,
    y: Value,
    z: Value | None = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """Gemm followed by an activation."""
    parameters = [p for p in (activation_alpha, activation_beta, activation_gamma) if p is not None]
    product = b(Gemm, x, y, z, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(b, product, activation, parameters)


@import_rule("MatMulIntegerToFloat")
def matmul_integer_to_float(
    b: Builder,
    x: Value,
    y: Value,
    x_scale: Value,
    y_scale: Value,
    x_zero_point: Value | None = None,
    y_zero_point: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Integer matrix product, scaled to floats, plus a bias."""
    product = b(Cast, b(MatMulInteger, x, y, x_zero_point, y_zero_point), to=dtype_of(x_scale) or DType.FLOAT32)
    scaled = b(Mul, product, b(Mul, x_scale, y_scale))
    return scaled if bias is None else b(Add, scaled, bias)


@import_rule("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    b: Builder,
    x: Value,
    y: Value,
    y_scale: Value,
    y_zero_point: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Matrix product with integer weights and a dynamically quantized factor."""
    steps, scale, zero_point = b.results(DynamicQuantizeLinear, 3, x)
    return matmul_integer_to_float(b, steps, y, scale, y_scale, zero_point, y_zero_point, bias)


@import_rule("QGemm")
def qgemm(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y: Value,
    y_scale: Value,
    y_zero_point: Value,
    z: Value | None = None,
    result_scale: Value | None = None,
    result_zero_point: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """Quantized Gemm with an integer bias; requantized if there is a result scale."""
    only("per-tensor or per-column weight scales", holds=len(b.dims(y_scale)) < 2)
    left = dequantize(b, x, x_scale, x_zero_point)
    right = b(DequantizeLinear, y, y_scale, y_zero_point, axis=0 if transB else 1)
    product = b(Gemm, left, right, alpha=alpha, transA=transA, transB=transB)
    if z is not None:
        step = b(Mul, b(Mul, x_scale, y_scale), alpha)
        product = b(Add, product, b(Mul, b(Cast, z, to=DType.FLOAT32), step))
    return product if result_scale is None else stepped(b, product, result_scale, result_zero_point, x)


@import_rule("MatMulNBits")
def matmul_nbits(
    b: Builder,
    x: Value,
    weight: Value,
    scales: Value,
    zero_points: Value | None = None,
    g_idx: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Value:
    """Matrix product with weights of 2, 4 or 8 bits, scaled per block of a column.

    The weight bytes are unchanged: they are reinterpreted as narrow integers for a blocked DequantizeLinear.
    """
    del accuracy_level
    only("weights in column order", holds=g_idx is None and not weight_prepacked)
    only("2-bit, 4-bit or 8-bit weights", holds=bits in INTEGERS)
    only("sizes above 0", holds=min(K, N, block_size) > 0)
    blocks = -(-K // block_size)
    steps = read_as(b, weight, bits, (N, blocks * block_size))
    shift = _zero_points(b, zero_points, bits, (N, blocks))
    factors = b.reshaped(scales, (N, blocks))
    only("constant weights and scales", holds=steps is not None and shift is not None and factors is not None)
    dense = b(DequantizeLinear, steps, factors, shift, axis=1, block_size=block_size)
    if blocks * block_size != K:
        dense = b(Slice, dense, *(b.constant(np.array([n], np.int64)) for n in (0, K, 1)))
    product = b(MatMul, x, b(Transpose, dense, perm=(1, 0)))
    return product if bias is None else b(Add, product, bias)


INTEGERS = {2: DType.UINT2, 4: DType.UINT4, 8: DType.UINT8}
"""What bytes hold, by its bits."""


def read_as(b: Builder, packed: Value, bits: int, shape: tuple[int, ...]) -> Value | None:
    """Return the bytes of a constant as integers of `bits` bits."""
    storage = packed.storage
    if storage is None or (packed.graph is not None and not packed.is_constant):
        return None
    return b.constant(_bits(storage, INTEGERS[bits], shape), name=packed.name)


def _bits(storage: Storage, dtype: DType, shape: tuple[int, ...]) -> Storage:
    only(f"{dtype.size(int(np.prod(shape)))} bytes of weights", holds=storage.nbytes == dtype.size(int(np.prod(shape))))
    return storage.reshaped(shape) if storage.dtype is dtype else Bits(storage, dtype, shape)


def _zero_points(b: Builder, packed: Value | None, bits: int, shape: tuple[int, int]) -> Value | None:
    """Zero points one for each block: in the middle of the range if there are none; rows end at whole bytes."""
    dtype = INTEGERS[bits]
    if packed is None:
        return b.constant(np.full(shape, 1 << (bits - 1)).astype(dtype.numpy), dtype)
    only("integer zero points", holds=dtype_of(packed) is DType.UINT8)
    if shape[1] * bits % 8 == 0:
        return read_as(b, packed, bits, shape)
    row = -(-shape[1] * bits // 8) * 8 // bits
    only("zero points whose packed rows have no padding", holds=shape[0] * row <= _FEW)
    whole = read_as(b, packed, bits, (shape[0], row))
    return None if whole is None or whole.storage is None else b.constant(whole.storage.numpy()[:, : shape[1]], dtype)


_FEW = 1 << 22
"""Zero points that are moved in memory, one byte each, where their rows end within a byte."""


_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_FP4 = (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)


@import_rule("MatMulBnb4")
def matmul_bnb4(
    b: Builder,
    x: Value,
    weight: Value,
    absmax: Value,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Value:
    """Matrix product with weights of 4 bits that index a table (bitsandbytes FP4 or NF4), scaled per block.

    Shapes: weight [(N K + 1) / 2], the first element of a byte in its upper half; absmax [ceil(N K / block_size)].
    """
    del training_mode
    only("transposed weights", holds=transB == 1)
    only("whole blocks and bytes", holds=block_size > 0 and N * K % block_size == 0 and N * K % 2 == 0)
    table = np.array(_NF4 if quant_type else (*_FP4, *(-n for n in _FP4)), np.float32)
    halves = [b(BitShift, weight, 4, direction="RIGHT"), b(BitwiseAnd, weight, 15)]
    codes = b(Concat, *(b(Unsqueeze, each, b.constant([1])) for each in halves), axis=1)
    indices = b(Reshape, b(Cast, codes, to=DType.INT32), b.constant([N * K // block_size, block_size]))
    factors = b(Reshape, absmax, b.constant([N * K // block_size, 1]))
    dense = b(Mul, b(Cast, b(Gather, b.constant(table), indices), to=dtype_of(absmax) or DType.FLOAT32), factors)
    return b(MatMul, x, b(Transpose, b(Reshape, dense, b.constant([N, K])), perm=(1, 0)))


@import_rule("CDist")
def pairwise_distances(b: Builder, x: Value, y: Value, *, metric: str = "sqeuclidean") -> Value:
    """Distances between the rows of two matrices: x [M, N], y [K, N] → [M, K]."""
    only("the Euclidean distance or its square", holds=metric in ("sqeuclidean", "euclidean"))
    difference = b(Sub, b(Unsqueeze, x, b.constant([1])), b(Unsqueeze, y, b.constant([0])))
    op_def = ReduceSumSquare if metric == "sqeuclidean" else ReduceL2
    return b(op_def, difference, b.constant([2]), keepdims=0)


@import_rule("MoE")
def mixture_of_experts(
    b: Builder,
    x: Value,
    router: Value,
    w1: Value,
    b1: Value | None,
    w2: Value,
    b2: Value | None = None,
    *,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    use_sparse_mixer: int = 0,
) -> Value:
    """Mixture of experts, all computed for all tokens: the sum of the `k` with the largest routing weights.

    Each expert is two linear layers with an activation between.

    Shapes: x [*t, H], router [T, E], w1 [E, I, H], b1 [E, I], w2 [E, H, I], b2 [E, H] → [*t, H].
    """
    only("routing by the largest weights", holds=not use_sparse_mixer)
    only("the activations relu, gelu, silu and identity", holds=activation_type in _ACTIVATIONS)
    hidden = b.dims(x, at_least=2)[-1]
    only("a known hidden size", holds=isinstance(hidden, int))
    rows = x if len(b.dims(x)) == 2 else b(Reshape, x, b.constant([-1, int(str(hidden))]))
    inner = _ACTIVATIONS[activation_type](b, _linear(b, rows, w1, b1))
    experts = _linear(b, inner, w2, b2)
    scores = router if normalize_routing_weights else b(Softmax, router, axis=-1)
    weights, indices = b.results(TopK, 2, scores, b.constant([k]))
    shares = b(Softmax, weights, axis=-1) if normalize_routing_weights else weights
    every = b(ScatterElements, b(Sub, router, router), indices, shares, axis=1)
    share = b(Unsqueeze, b(Transpose, every, perm=(1, 0)), b.constant([2]))
    y = b(ReduceSum, b(Mul, experts, share), b.constant([0]), keepdims=0)
    return y if rows is x else b(Reshape, y, b(Shape, x))


def _linear(b: Builder, x: Value, w: Value, bias: Value | None) -> Value:
    y = b(MatMul, x, b(Transpose, w, perm=(0, 2, 1)))
    return y if bias is None else b(Add, y, b(Unsqueeze, bias, b.constant([1])))


_ACTIVATIONS = {
    "relu": lambda b, x: b(Relu, x),
    "gelu": lambda b, x: b(Gelu, x, approximate="tanh"),
    "silu": lambda b, x: b(Mul, x, b(Sigmoid, x)),
    "identity": lambda _, x: x,
}
