"""Products of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.keras.rules.activation import activated
from graphport.formats.keras.rules.binding import Layer, checked_axis, layer
from graphport.formats.keras.rules.tensors import binary, reduced, unsqueezed
from graphport.ops.definitions.arithmetic import Add, Max, Mul, Reciprocal, Sqrt
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reduction.einsum import Einsum
from graphport.ops.lowering.operands import transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@layer("Dense", weights="kernel bias:use_bias", mask="keep")
def dense(at: Layer, *, units: int = 0, activation: Any = None, use_bias: bool = True) -> Value:
    """The last axis times a matrix [inputs, units]."""
    del units, use_bias
    y = at.b(MatMul, at.x, at.need("kernel"))
    bias = at.get("bias")
    return activated(at, y if bias is None else at.b(Add, y, bias), activation)


@layer("EinsumDense", weights="kernel bias:bias_axes")
def einsum_dense(
    at: Layer, *, equation: str = "", output_shape: Any = None, activation: Any = None, bias_axes: str | None = None
) -> Value:
    """A sum of products with a kernel."""
    del output_shape, bias_axes
    y = at.b(Einsum, at.x, at.need("kernel"), equation=equation)
    bias = at.get("bias")
    return activated(at, y if bias is None else at.b(Add, y, bias), activation)


@layer("Dot")
def dot(at: Layer, *, axes: Any = -1, normalize: bool = False) -> Value:
    """Products of two tensors over one axis of each, for each item of the batch."""
    b, (x, y) = at.b, at.inputs
    given = (axes, axes) if isinstance(axes, int) else tuple(axes)
    left, right = (checked_axis(axis, len(b.dims(value))) for axis, value in zip(given, (x, y), strict=True))
    if normalize:
        x, y = _normalized(b, x, left), _normalized(b, y, right)
    return batch_dot(b, x, y, left, right)


def batch_dot(b: Builder, x: Value, y: Value, left: int, right: int) -> Value:
    """Sums over axis `left` of `x` and `right` of `y` for each item of the batch; the result has rank 2 at least."""
    one, other = len(b.dims(x)), len(b.dims(y))
    letters = "abcdefghijklmnopqrstuvwxyz"
    first = list(letters[: one - 1])
    second = list(letters[one - 1 : one + other - 2])
    terms_x, terms_y = ["n", *[c for c in first if c != "n"]], ["n"]
    if "n" in first or "n" in second or one + other > 12:
        letters = letters.replace("n", "") + "ABCDEFGHIJKLM"
        first, second = list(letters[: one - 1]), list(letters[one - 1 : one + other - 2])
    terms_x, terms_y = ["n", *first], ["n", *second]
    terms_y[right] = terms_x[left]
    result = [c for c in terms_x if c != terms_x[left]] + [c for c in terms_y[1:] if c != terms_x[left]]
    if one == 3 and other == 3:
        x = x if left == 2 else transposed(b, x, (0, 2, 1))
        y = y if right == 1 else transposed(b, y, (0, 2, 1))
        return b(MatMul, x, y)
    z = b(Einsum, x, y, equation=f"{''.join(terms_x)},{''.join(terms_y)}->{''.join(result)}")
    return unsqueezed(b, z, [1]) if len(result) == 1 else z


def _normalized(b: Builder, x: Value, axis: int) -> Value:
    """`x` divided by its length along an axis."""
    total = reduced(b, ReduceSum, b(Mul, x, x), [axis], keepdims=True)
    return b(Mul, x, b(Reciprocal, b(Sqrt, binary(b, Max, total, 1e-12))))
