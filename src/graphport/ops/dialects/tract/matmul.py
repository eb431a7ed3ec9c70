"""Products in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.dialects.nnef import matmul as nnef
from graphport.ops.dialects.nnef.reduction_einsum import lettered
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import DIALECT, dtype_of, unified, word
from graphport.ops.dialects.tract.types import datum, datum_name

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)


@word("matmul")
def matmul(b: Builder, A: Value, B: Value, *, transposeA: bool = False, transposeB: bool = False) -> Value:
    """The product of the last two axes."""
    return nnef.matmul(b, *unified(b, A, B), transposeA=transposeA, transposeB=transposeB)


@word("linear")
def linear(b: Builder, input: Value, filter: Value, bias: Value | None = None) -> Value:
    """The product with the transposed filter, and a bias."""
    operands = [input, filter] if bias is None else [input, filter, bias]
    return nnef.linear(b, *unified(b, *operands))


@word("tract_core_einsum")
def einsum(b: Builder, *inputs: Value, expr: str, acc: str = "f32", output: str = "") -> Value:
    """A sum of products, computed in the type `acc`."""
    emit = OpBuilder(b)
    same = unified(b, *inputs)
    y = emit("Einsum", *same, equation=expr.replace(" ", ""))
    own = dtype_of(same[0])
    wanted = datum(output) if output else (datum(acc) if own is not None and not own.is_floating else own)
    return y if wanted is None or own is wanted else emit("Cast", y, to=wanted)


@word("tract_core_matmul")
def old_matmul(b: Builder, A: Value, B: Value, *, axes: tuple[tuple[int, ...], ...] = ()) -> Value:
    """The product of two matrices that lie in any axes: those of rows, of columns and of the sum, in each tensor."""
    if not axes:
        return OpBuilder(b)("MatMul", *unified(b, A, B))
    message = "axes of factors are written as an einsum today"
    raise UnsupportedError(message)


@lift(DIALECT, "Einsum")
def lift_einsum(b: Builder, *inputs: Value, equation: str) -> Any:
    found = lettered(equation, [len(b.dims(value)) for value in inputs])
    if found is None:
        return None
    text = f"{','.join(found[0])}->{found[1]}"
    dtype = dtype_of(inputs[0])
    acc = "f32" if dtype is None else datum_name(dtype)
    return b.word("tract_core_einsum", *inputs, expr=text, acc=acc or "f32")
