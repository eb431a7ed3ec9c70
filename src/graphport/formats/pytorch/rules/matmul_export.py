"""Export rules of matrix products to ATen."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, EXPORT, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Mul, Sub
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.matmul.quantized import MatMulInteger
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, transposed
from graphport.ops.views.matmul import GemmView, QLinearMatMulView

_UNSIGNED = (DType.UINT16, DType.UINT32, DType.UINT64)


@MatMul.export_rule(DIALECT)
def export_matmul(b: Builder, x: Value, y: Value) -> Value:
    own = dtype_of(x)
    if own in _UNSIGNED:
        return cast(b, aten(b, "matmul", cast(b, x, DType.INT64), cast(b, y, DType.INT64)), own)
    return aten(b, "matmul", x, y)


@GemmView.export_rule(DIALECT)
def export_gemm(b: Builder, op: GemmView) -> Value:
    """Export Gemm as `aten.linear` if the second matrix is transposed, else as `aten.addmm`."""
    if dtype_of(op.a) in _UNSIGNED:
        message = f"PyTorch has no matrix product of {dtype_of(op.a)}"
        raise UnsupportedError(message)
    x = transposed(b, op.a, (1, 0)) if op.transA else op.a
    c = op.c
    if op.transB and op.alpha == 1 and op.beta == 1 and dtype_of(x).is_floating:
        width = b.dims(op.b)[0]
        if c is None or b.dims(c) == (width,):
            return aten(b, "linear", x, op.b, c)
        if len(b.dims(c)) == 2 and b.dims(c)[0] == 1 and b.dims(c)[1] == width and isinstance(width, int):
            return aten(b, "linear", x, op.b, reshaped(b, c, [width]))
    w = transposed(b, op.b, (1, 0)) if op.transB else op.b
    if c is None:
        y = aten(b, "mm", x, w)
        return y if op.alpha == 1 else b(Mul, y, b.like(y, op.alpha))
    if dtype_of(x).is_floating:
        return aten(b, "addmm", c, x, w, beta=op.beta, alpha=op.alpha)
    y = aten(b, "mm", x, w)
    y = y if op.alpha == 1 else b(Mul, y, b.like(y, op.alpha))
    return b(Add, y, c if op.beta == 1 else b(Mul, c, b.like(c, op.beta)))


@MatMulInteger.export_rule(DIALECT)
def export_matmul_integer(
    b: Builder, x: Value, y: Value, x_zero: Value | None = None, y_zero: Value | None = None
) -> Value:
    wide = [cast(b, each, DType.INT32) for each in (x, y)]
    if x_zero is not None:
        zero = cast(b, x_zero, DType.INT32)
        is_by_row = len(b.dims(x_zero)) == 1 and b.dims(x_zero)[0] != 1
        wide[0] = b(Sub, wide[0], reshaped(b, zero, [-1, 1]) if is_by_row else zero)
    if y_zero is not None:
        wide[1] = b(Sub, wide[1], cast(b, y_zero, DType.INT32))
    return aten(b, "matmul", *wide)


@QLinearMatMulView.export_rule(DIALECT)
def export_qlinear_matmul(b: Builder, op: QLinearMatMulView) -> Value:
    def dequantized(x: Value, scale: Value, zero: Value, axis: int) -> Value:
        count = len(b.dims(scale))
        if count > 1:
            shifted = b(Sub, cast(b, x, DType.FLOAT32), cast(b, zero, DType.FLOAT32))
            return b(Mul, shifted, cast(b, scale, DType.FLOAT32))
        return b(DequantizeLinear, x, cast(b, scale, DType.FLOAT32), zero, axis=axis)

    x = dequantized(op.a, op.a_scale, op.a_zero_point, len(b.dims(op.a)) - 2)
    y = dequantized(op.b, op.b_scale, op.b_zero_point, len(b.dims(op.b)) - 1)
    return b(QuantizeLinear, b(MatMul, x, y), cast(b, op.y_scale, DType.FLOAT32), op.y_zero_point)


EXPORT.export_rules("""
Det -> aten.linalg_det(x)
""")
