"""OpenVINO's Reshape-1: copied dims do not count for -1, and every shape that does not fit is an error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from graphport.core.dims import Dim, decide_less, maximum, product
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.formats.openvino.rules.binding import RULES
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.reshape import Reshape, may_fill, resolve_copied_dims
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import cast, sizes

_NO_DIM = -2
"""A dim that every runtime refuses: how an error that only a run can find is raised there."""


@dataclass(frozen=True, slots=True)
class Target:
    """Result of a shape pattern: the dims, and the indices of copied dims."""

    dims: tuple[Dim, ...]
    copied: frozenset[int]
    rest: Dim | None
    """The dim of -1: remaining elements divided by the other dims; `None` if there is no -1."""


@lru_cache(maxsize=1024)
def target(source: tuple[Dim, ...] | None, pattern: tuple[Dim, ...], *, special_zero: bool) -> Target:
    """Return the shape of `source` after a Reshape to `pattern`; dynamic dims are `OPEN`.

    With `special_zero`, a 0 copies the dim at its index. The copied dims are excluded from the element count of -1.

    Raises:
        ShapeError: two -1, an entry below -1, a 0 without a dim to copy, or different element counts.
    """
    if sum(entry == -1 for entry in pattern) > 1:
        message = f"the shape {list(map(str, pattern))} has more than one -1"
        raise ShapeError(message, "use -1 for at most one dim")
    if any(decide_less(entry, -1) for entry in pattern):
        message = f"the shape {list(map(str, pattern))} has a dim below -1"
        raise ShapeError(message, "use -1, 0 or positive dims")
    copied = frozenset(place for place, entry in enumerate(pattern) if special_zero and entry == 0)
    if source is None:
        least = 1 if special_zero else 0
        return Target(tuple(entry if decide_less(entry, least) is False else OPEN for entry in pattern), copied, None)
    farthest = max(copied, default=-1)
    if farthest >= len(source):
        stated = list(map(str, pattern))
        message = f"dim {farthest} of the shape {stated} is 0 and copies a dim, but the operand has rank {len(source)}"
        raise ShapeError(message, "use 0 only below the rank of the operand")
    dims = [source[place] if place in copied else entry for place, entry in enumerate(pattern)]
    if special_zero:
        dims = resolve_copied_dims(source, dims)
    if -1 not in dims:
        _check_count(source, dims)
        return Target(tuple(dims), copied, None)
    rest = _inferred_dim(source, pattern, copied, _doubtful(source, pattern) if special_zero else frozenset())
    return Target(tuple(rest if dim == -1 else dim for dim in dims), copied, rest)


def _check_count(source: tuple[Dim, ...], dims: list[Dim]) -> None:
    if not may_fill(source, dims):
        message = f"{product(source)} elements cannot have shape {list(map(str, dims))}"
        raise ShapeError(message, "keep the number of elements")


def _doubtful(source: tuple[Dim, ...], pattern: tuple[Dim, ...]) -> frozenset[int]:
    """Return the indices of symbolic entries, which copy a dim if they are 0 at run time."""
    found = zip(range(len(source)), pattern, strict=False)
    return frozenset(place for place, entry in found if not isinstance(entry, int) and not _is_positive(entry))


def _inferred_dim(
    source: tuple[Dim, ...], pattern: tuple[Dim, ...], copied: frozenset[int], doubtful: frozenset[int]
) -> Dim:
    """Return the dim of the entry -1; where an index in `doubtful` has the entry 0, its dim is not counted."""
    positions = [place for place in range(max(len(source), len(pattern))) if place not in copied]
    dims, entries = list(source), [1 if entry == -1 else entry for entry in pattern]
    for place in doubtful:
        if entries[place] == dims[place]:
            positions.remove(place)
        else:
            is_zero = maximum(1 - entries[place], 0)
            dims[place] = dims[place] + (1 - dims[place]) * is_zero
            entries[place] = entries[place] + is_zero
    shared = product(dims[place] for place in positions if place < len(dims))
    fixed = product(entries[place] for place in positions if place < len(entries))
    if isinstance(fixed, int) and fixed == 0:
        message = f"-1 in the shape {list(map(str, pattern))} is ambiguous, because another dim is 0"
        raise ShapeError(message)
    if isinstance(shared, int) and isinstance(fixed, int) and shared % fixed:
        message = f"{shared} elements are not a multiple of {fixed}, which the shape {list(map(str, pattern))} fixes"
        raise ShapeError(message, "keep the number of elements")
    return shared // fixed


@lower("openvino", "opset1.Reshape")
def reshape(b: Builder, data: Value, shape: Value, *, special_zero: bool = False) -> Value:
    """The elements of `data` in another shape."""
    fact, shape_fact = data.fact, shape.fact
    if not isinstance(fact, TensorFact) or not isinstance(shape_fact, TensorFact):
        message = "Reshape requires tensors"
        raise ShapeError(message)
    if shape_fact.shape is not None and len(shape_fact.shape) != 1:
        message = f"the shape operand has rank {len(shape_fact.shape)}"
        raise ShapeError(message, "use a tensor of rank 1")
    if shape_fact.dtype is not None and not shape_fact.dtype.is_integer:
        message = f"the shape operand has type {shape_fact.dtype}"
        raise ShapeError(message, "use an integer type")
    if shape_fact.elements is None:
        return _computed(b, data, shape, special_zero=special_zero)
    found = target(fact.shape, shape_fact.elements, special_zero=special_zero)
    result = _reshape_statically(b, data, shape, shape_fact.elements, found, special_zero=special_zero)
    if not any(dim == OPEN for dim in found.dims):
        made = result.fact
        result.fact = TensorFact(fact.dtype, found.dims, made.elements if isinstance(made, TensorFact) else None)
    return result


def _reshape_statically(
    b: Builder, data: Value, shape: Value, pattern: tuple[Dim, ...], found: Target, *, special_zero: bool
) -> Value:
    """Emit the Reshape if the pattern is static, at least as expressions."""
    dims = found.dims
    if all(isinstance(dim, int) for dim in dims):
        return _emit_reshape(b, data, dims, allowzero=0 in dims)
    source = data.shape
    if not all(isinstance(entry, int) for entry in pattern):
        if special_zero and source is not None:
            # An entry equal to the dim at its index copies it, whether it is 0 or not.
            is_copied = [
                not isinstance(entry, int) and (entry,) == source[i : i + 1] for i, entry in enumerate(pattern)
            ]
            copies = tuple(0 if copies else entry for entry, copies in zip(pattern, is_copied, strict=True))
            if copies != pattern:
                return _reshape_statically(
                    b, data, shape, copies, target(source, copies, special_zero=True), special_zero=True
                )
        copied = found.copied | (_doubtful(source or (), pattern) if special_zero else frozenset())
        if found.rest is not None and source is not None and not all(_is_positive(source[i]) for i in copied):
            # ONNX would divide by a copied dim that is 0.
            return _computed(b, data, shape, special_zero=special_zero)
        return b(Reshape, data, cast(b, shape, DType.INT64), allowzero=int(not special_zero))
    if not found.copied:
        return _emit_reshape(b, data, pattern, allowzero=0 in pattern)
    if found.rest is None or source is None:
        return _emit_reshape(b, data, pattern)
    place = pattern.index(-1)
    if isinstance(found.rest, int) and found.rest > 0:
        return _emit_reshape(b, data, [*pattern[:place], found.rest, *pattern[place + 1 :]])
    if place < len(source) and source[place] == found.rest:
        return _emit_reshape(b, data, [*pattern[:place], 0, *pattern[place + 1 :]])
    if all(_is_positive(source[index]) for index in found.copied):
        return _emit_reshape(b, data, pattern)
    return _shared_out(b, data, pattern, found, len(source))


def _is_positive(dim: Dim) -> bool:
    return decide_less(dim, 1) is False


def _emit_reshape(b: Builder, data: Value, dims: list[Dim] | tuple[Dim, ...], *, allowzero: bool = False) -> Value:
    return b(Reshape, data, sizes(dims), allowzero=int(allowzero))


def _shared_out(b: Builder, data: Value, pattern: tuple[Dim, ...], found: Target, rank: int) -> Value:
    """Emit a Reshape with a computed -1, for copied dims that may be 0: ONNX would divide by them."""
    emit = OpBuilder(b)
    extents = emit("Shape", data)
    counted = [axis for axis in range(rank) if axis not in found.copied]
    shared = emit("ReduceProd", emit("Gather", extents, counted), keepdims=1)
    fixed = product(entry for place, entry in enumerate(pattern) if place not in found.copied and entry != -1)
    open_dim = _quotient(emit, shared, b.integers(sizes([fixed])), b.integers([_NO_DIM]))
    pieces: list[Value] = []
    for place, entry in enumerate(pattern):
        if place in found.copied:
            pieces.append(emit("Gather", extents, [place]))
        else:
            pieces.append(open_dim if entry == -1 else b.integers(sizes([entry])))
    return b(Reshape, data, emit("Concat", *pieces, axis=0), allowzero=1)


def _quotient(emit: OpBuilder, shared: Value, fixed: Value, refused: Value) -> Value:
    """Return `shared / fixed` if it is an integer, else an invalid dim."""
    quotient = emit("Div", shared, fixed)
    return emit("Where", emit("Equal", emit("Mul", quotient, fixed), shared), quotient, refused)


def _computed(b: Builder, data: Value, shape: Value, *, special_zero: bool) -> Value:
    """Emit a Reshape whose pattern is computed at run time."""
    pattern = cast(b, shape, DType.INT64)
    dims = data.shape
    if dims is not None and all(map(_is_positive, dims)):
        return b(Reshape, data, pattern, allowzero=int(not special_zero))
    asked = _compute_dims(b, data, pattern) if special_zero else _without_quotient_of_zero(b, pattern)
    return b(Reshape, data, asked, allowzero=1)


def _without_quotient_of_zero(b: Builder, pattern: Value) -> Value:
    """Return a pattern that is refused if it has -1 and 0: for empty tensors, runtimes differ."""
    emit = OpBuilder(b)
    is_open = emit("Equal", pattern, -1)
    fixed = emit("ReduceProd", emit("Where", is_open, 1, pattern), keepdims=1)
    return emit("Where", emit("And", is_open, emit("Equal", fixed, 0)), _NO_DIM, pattern)


def _compute_dims(b: Builder, data: Value, pattern: Value) -> Value:
    """Compute the target shape of a pattern in which 0 copies a dim; a dim of -2 makes the Reshape fail.

    copied = pattern == 0;  dims = copied ? shape : pattern, and -2 after the last axis
    shared = product of the dims that are not copied;  fixed = product of the entries above 0
    """
    emit = OpBuilder(b)
    extents = emit("Shape", data)
    rank = emit("Shape", extents)
    copied = emit("Equal", pattern, 0)
    is_open = emit("Equal", pattern, -1)
    positions = emit("Range", 0, emit("Size", pattern), 1)
    reachable = emit("Concat", extents, [_NO_DIM], axis=0)
    source = emit("Gather", reachable, emit("Min", positions, rank))
    # Whether an axis is copied: the pattern may be shorter or longer than the operand has axes.
    padded = emit("Concat", emit("Cast", copied, to=DType.INT64), emit("Mul", extents, 0), axis=0)
    is_copied = emit("Cast", emit("Slice", padded, [0], rank), to=DType.BOOL)
    shared = emit("ReduceProd", emit("Where", is_copied, 1, extents), keepdims=1)
    fixed = emit("ReduceProd", emit("Where", emit("Greater", pattern, 0), pattern, 1), keepdims=1)
    opens = emit("ReduceSum", emit("Cast", is_open, to=DType.INT64), keepdims=1)
    refused = b.integers([_NO_DIM])
    quotient = emit("Where", emit("Greater", opens, 1), refused, _quotient(emit, shared, fixed, refused))
    return emit("Where", copied, source, emit("Where", is_open, quotient, pattern))


# A literal 0 stays literal; ONNX leaves -1 with a copied 0 undefined.
RULES.export_rules("Reshape -> opset1.Reshape(data, shape, special_zero=not allowzero)")
