"""Reshaping in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dims.terms import Extreme, Quotient
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules import reshape as nnef
from graphport.formats.nnef.rules.copies import protect_copies
from graphport.formats.nnef.rules.tract.binding import DIALECT, Numbers, axis_of, elements, import_rule, static, vector
from graphport.formats.nnef.rules.tract.rule_table import dims_of
from graphport.ir.graph import Value
from graphport.ops.declare import ShapeError, UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.dims.terms import Terms
    from graphport.core.storage import Storage
    from graphport.ops.builder import Builder


@import_rule("reshape")
def reshape(b: Builder, input: Value, *, shape: Numbers, axis_start: int = 0, axis_count: int = -1) -> Value:
    """Replace `axis_count` axes, beginning at `axis_start`, by `shape`."""
    known = static(shape)
    if known is not None:
        return nnef.reshape(b, input, shape=known, axis_start=axis_start, axis_count=axis_count)
    emit, rank = OpBuilder(b), len(b.dims(input))
    stop = rank if axis_count == -1 else axis_start + axis_count
    if not 0 <= axis_start <= stop <= rank:
        message = f"axis_start {axis_start} and axis_count {axis_count} reach beyond rank {rank}"
        raise ShapeError(message)
    parts = [emit("Shape", input, start=0, end=axis_start)] if axis_start else []
    parts.append(vector(b, shape))
    parts += [emit("Shape", input, start=stop, end=rank)] if stop < rank else []
    # Only a literal 0 copies a dim; a computed 0 is a dim of 0.
    wanted = elements(shape) if isinstance(shape, Value) else shape
    is_literal = wanted is None or any(isinstance(extent, int) and extent == 0 for extent in wanted)
    whole = parts[0] if len(parts) == 1 else emit("Concat", *parts, axis=0)
    return emit("Reshape", input, whole, allowzero=None if is_literal else 1)


@import_rule("squeeze")
def squeeze(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """Remove axes of length 1."""
    return nnef.squeeze(b, input, axes=tuple(axis_of(axis, len(b.dims(input))) for axis in axes))


@import_rule("tile")
def tile(b: Builder, input: Value, *, repeats: Numbers) -> Value:
    """Repeat the tensor `repeats[i]` times along axis i."""
    return OpBuilder(b)("Tile", input, vector(b, repeats))


@import_rule("tract_core_broadcast")
def broadcast(b: Builder, input: Value, *, shape: Numbers) -> Value:
    """Broadcast axes of length 1 to a shape of the same rank."""
    return OpBuilder(b)("Expand", input, vector(b, shape))


@import_rule("tract_core_shape_of")
def shape_of(b: Builder, input: Value) -> Value:
    """Return the shape of the tensor."""
    return OpBuilder(b)("Shape", input)


@import_rule("concat")
def concat(b: Builder, *values: Value, axis: int) -> Value:
    """Concatenate, in the type of the first operand."""
    emit = OpBuilder(b)
    own = values[0].dtype
    same = [v if own is None or v.dtype in (None, own) else emit("Cast", v, to=own) for v in values]
    return nnef.concat(b, *same, axis=axis_of(axis, len(b.dims(values[0]))))


@import_rule("stack")
def stack(b: Builder, *values: Value, axis: int) -> Value:
    """Concatenate along a new axis, in the type of the first operand."""
    emit = OpBuilder(b)
    own = values[0].dtype
    same = [v if own is None or v.dtype in (None, own) else emit("Cast", v, to=own) for v in values]
    return nnef.stack(b, *same, axis=axis)


@import_rule("pack")
def pack(b: Builder, *items: Value) -> Value:
    """Concatenate integers to int64[n]."""
    emit = OpBuilder(b)
    parts: list[Value] = []
    for item in items:
        wide = item if item.dtype is DType.INT64 else emit("Cast", item, to=DType.INT64)
        is_flat = len(b.dims(item)) == 1
        parts.append(wide if is_flat else emit("Reshape", wide, [-1]))
    return parts[0] if len(parts) == 1 else emit("Concat", *parts, axis=0)


@import_rule("chunked")
def chunked(b: Builder, input: Value, *, axis: int, chunk: int) -> Value:
    """Split an axis into the index of a chunk and the index within the chunk."""
    emit, rank = OpBuilder(b), len(b.dims(input))
    shape = [0] * axis + [-1, chunk]
    behind = [emit("Shape", input, start=axis + 1, end=rank)] if axis + 1 < rank else []
    return emit(
        "Reshape",
        input,
        emit("Concat", vector(b, tuple(shape)), *behind, axis=0) if behind else vector(b, tuple(shape)),
    )


@import_rule("joined")
def joined(b: Builder, input: Value, *, axis: int) -> Value:
    """Merge two axes."""
    emit, rank = OpBuilder(b), len(b.dims(input))
    front = vector(b, tuple([0] * axis + [-1]))
    if axis + 2 >= rank:
        return emit("Reshape", input, front)
    return emit("Reshape", input, emit("Concat", front, emit("Shape", input, start=axis + 2, end=rank), axis=0))


# Export rules


@export_rule(DIALECT, "Reshape")
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Any:
    """Export Reshape with symbolic result dims; one unknown dim is inferred."""
    dims = b.outcome.shape
    known = dims_of(shape)
    if dims is None and known is not None and 0 not in known:
        dims = known
    if dims is None:
        return None
    if not dims and b.dims(data):  # tract rejects an empty list of dims
        return b.emit("squeeze", data, axes=tuple(range(len(b.dims(data)))))
    is_simple = [not isinstance(dim, Symbolic) or dim in b.dims(data) or "~" not in str(dim) for dim in dims]
    if is_simple.count(False) > 1:
        return None
    require_constant_divisors(dims)
    target: Any = tuple(dim if simple else -1 for dim, simple in zip(dims, is_simple, strict=True))
    return b.emit("reshape", data, shape=target)


def require_constant_divisors(dims: Sequence[Dim]) -> None:
    """Refuse quotients of dims whose divisor is not constant, because tract rejects them.

    Raises:
        UnsupportedError: a divisor is not constant.
    """
    for dim in dims:
        if isinstance(dim, Symbolic) and has_open_divisor(dim.terms):
            message = f"tract divides dims only by constants, not {dim}"
            raise UnsupportedError(message, help="set the dim in the divisor with --input")


def has_open_divisor(terms: Terms) -> bool:
    """Whether a divisor in a symbolic dim is not constant."""
    atoms = [atom for monomial, _ in terms for atom in monomial]
    inner = [each for atom in atoms if isinstance(atom, Quotient) for each in (atom.numerator, atom.denominator)]
    inner += [each for atom in atoms if isinstance(atom, Extreme) for each in atom.operands]
    divisors = [atom.denominator for atom in atoms if isinstance(atom, Quotient)]
    return any(monomial for divisor in divisors for monomial, _ in divisor) or any(map(has_open_divisor, inner))


@export_rule(DIALECT, "Expand")
def export_expand(b: Builder, input: Value, shape: Value) -> Any:
    dims = dims_of(shape)
    if dims is None:
        return None
    require_constant_divisors(dims)
    own = b.dims(input)
    x = input
    if len(dims) > len(own):
        new = tuple(range(len(dims) - len(own)))
        x = b.emit("unsqueeze", x, facts=[TensorFact(x.dtype, (*[1] * len(new), *own))], axes=new)[0]
    own = (*[1] * (len(dims) - len(own)), *own)
    dims = (*[1] * (len(own) - len(dims)), *dims)
    found = b.outcome.shape or dims  # tract does not simplify max(n, 1)
    found = [n if "~" in str(size) else size for n, size in zip(dims, found, strict=True)]
    target: Any = tuple(a if n == 1 else n for a, n in zip(own, found, strict=True))
    return protect_copies(b, b.emit("tract_core_broadcast", x, facts=[TensorFact(x.dtype, target)], shape=target))


@export_rule(DIALECT, "Tile")
def export_tile(b: Builder, input: Value, repeats: Value) -> Any:
    times: Any = dims_of(repeats)
    if times is None:
        return None
    dims: Any = tuple(dim * count for dim, count in zip(b.dims(input), times, strict=True))
    return protect_copies(b, b.emit("tile", input, facts=[TensorFact(input.dtype, dims)], repeats=times))


@export_rule(DIALECT, "Shape")
def export_shape(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Any:
    rank = len(b.dims(data))
    first, last, _ = slice(start, end).indices(rank)
    whole = b.emit("tract_core_shape_of", data, facts=[TensorFact(DType.INT64, (rank,))])[0]
    wide = b.emit("tract_core_cast", whole, facts=[TensorFact(DType.INT64, (rank,))], to="i64")
    if (first, last) == (0, rank):
        return wide
    if first >= last:
        return None
    return b.emit("slice", wide[0], axes=(0,), begin=(first,), end=(last,), stride=())


@export_rule(DIALECT, "ConstantOfShape")
def export_fill(b: Builder, input: Value, *, value: Storage | None = None) -> Any:
    """Export ConstantOfShape by broadcasting a single element to run-time dims."""
    dims: Any = dims_of(input)
    if dims is None:
        return None
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    one = b.constant(np.full([1] * len(dims), number.reshape(-1)[0]), None if value is None else value.dtype)
    return b.emit("tract_core_broadcast", one, shape=dims)
