"""Products in tract's NNEF."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.nnef.rules import matmul as nnef
from graphport.formats.nnef.rules.reduction_einsum import lettered
from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule, unified
from graphport.formats.nnef.rules.tract.types import datum, datum_name
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)


@import_rule("matmul")
def matmul(b: Builder, A: Value, B: Value, *, transposeA: bool = False, transposeB: bool = False) -> Value:
    """Matrix product over the last two axes, with optional transposes."""
    return nnef.matmul(b, *unified(b, A, B), transposeA=transposeA, transposeB=transposeB)


@import_rule("linear")
def linear(b: Builder, input: Value, filter: Value, bias: Value | None = None) -> Value:
    """Multiply by the transposed filter and add the bias."""
    operands = [input, filter] if bias is None else [input, filter, bias]
    return nnef.linear(b, *unified(b, *operands))


@import_rule("tract_core_einsum")
def einsum(b: Builder, *inputs: Value, expr: str, acc: str = "f32", output: str = "") -> Value:
    """Einsum, computed in the type `acc`."""
    emit = OpBuilder(b)
    same = unified(b, *inputs)
    y = emit("Einsum", *same, equation=expr.replace(" ", ""))
    own = same[0].dtype
    wanted = datum(output) if output else (datum(acc) if own is not None and not own.is_floating else own)
    return y if wanted is None or own is wanted else emit("Cast", y, to=wanted)


@import_rule("tract_core_matmul")
def old_matmul(b: Builder, A: Value, B: Value, *, axes: tuple[int, ...]) -> Value:
    """Matrix product over the row and column axes `axes`; see `matrix_equation`."""
    return OpBuilder(b)("Einsum", *unified(b, A, B), equation=matrix_equation(b, A, B, axes))


def matrix_equation(b: Builder, A: Value, B: Value, axes: tuple[int, ...]) -> str:
    """Return a product as an einsum; `axes` are (m, k) of A, (k, n) of B and (m, n) of the result.

    Raises:
        UnsupportedError: an axis is out of range.
    """
    ranks = [len(b.dims(x)) for x in (A, B)]
    if len(axes) != 6 or ranks[0] != ranks[1] or any(not 0 <= axis < ranks[0] for axis in axes):
        message = f"a matrix product with axes {list(axes)}"
        raise UnsupportedError(message)
    texts = [list(ascii_lowercase[: ranks[0]]) for _ in range(3)]
    for place, (at, letter) in enumerate(zip((0, 0, 1, 1, 2, 2), "mkknmn", strict=True)):
        texts[at][axes[place]] = letter.upper()
    one, other, result = ("".join(text) for text in texts)
    return f"{one},{other}->{result}"


@export_rule(DIALECT, "Einsum")
def export_einsum(b: Builder, *inputs: Value, equation: str) -> Any:
    found = lettered(equation, [len(b.dims(value)) for value in inputs])
    if found is None:
        return None
    text = f"{','.join(found[0])}->{found[1]}"
    dtype = inputs[0].dtype
    acc = "f32" if dtype is None else datum_name(dtype)
    return b.emit("tract_core_einsum", *inputs, expr=text, acc=acc or "f32")
