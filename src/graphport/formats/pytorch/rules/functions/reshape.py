"""Export rules of shape operators to PNNX."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from graphport.core.dims import Dim
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, called, length, static
from graphport.formats.pytorch.rules.functions.computed_lengths import computed_list, elements_of
from graphport.formats.pytorch.rules.functions.reshape_parts import split_sizes
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Reshape,
    Shape,
    Size,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from graphport.ops.definitions.reshape import resolve_target_shape as target_of
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.shapes import broadcast
from graphport.ops.views.reshape import Col2ImView

# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _shaped(b: Builder, x: Value, target: Sequence[Any]) -> Value | None:
    """Reshape; with several dynamic dims, sizes are computed at run time."""
    numbers: Any = tuple(dim if isinstance(dim, int) else -1 for dim in target)
    if numbers.count(-1) > 1:
        numbers = computed_list(b, target, x)
    if numbers is None:
        return None
    return called(b, "Tensor.reshape", TensorFact(dtype_of(x), tuple(target)), input=x, shape=numbers)


@Reshape.export_rule(DIALECT)
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Value | None:
    known = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    y = None if known is None else _shaped(b, data, target_of(b.dims(data), known, copies_zero=not allowzero))
    if y is not None or allowzero:
        return y
    return called(b, "Tensor.reshape", input=data, shape=shape)


@Flatten.export_rule(DIALECT)
def export_flatten(b: Builder, input: Value, *, axis: int = 1) -> Value | None:
    """Export Flatten: flatten the axes before `axis`, and the axes from it on."""
    dims = b.dims(input)
    rank = len(dims)
    place = axis + rank if axis < 0 else axis
    if place == 1 and rank > 1:
        return called(b, "torch.flatten", input=input, start_dim=1, end_dim=-1)
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) < rank:
        return None
    return _shaped(b, input, [prod(numbers[:place]), prod(numbers[place:])])


@Squeeze.export_rule(DIALECT)
def export_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Value | None:
    dims = b.dims(data)
    chosen = tuple(axis for axis, dim in enumerate(dims) if dim == 1) if axes is None else static(axes)
    if chosen is None or (axes is None and not all(isinstance(dim, int) for dim in dims)):
        return None
    gone = {axis % len(dims) for axis in chosen}
    return _shaped(b, data, [dim for axis, dim in enumerate(dims) if axis not in gone])


@Unsqueeze.export_rule(DIALECT)
def export_unsqueeze(b: Builder, data: Value, axes: Value) -> Value | None:
    chosen = static(axes)
    if chosen is None:
        return None
    y, rank = data, len(b.dims(data)) + len(chosen)
    for axis in sorted(axis % rank for axis in chosen):
        dims = list(b.dims(y))
        dims.insert(axis, 1)
        y = called(b, "torch.unsqueeze", TensorFact(dtype_of(data), tuple(dims)), input=y, dim=axis)
    return y


@Transpose.export_rule(DIALECT)
def export_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    order = tuple(reversed(range(len(b.dims(data))))) if perm is None else perm
    if not order:
        return called(b, "nn.Identity", input=data)
    return called(b, "Tensor.permute", input=data, dims=order)


@Concat.export_rule(DIALECT)
def export_concat(b: Builder, *inputs: Value, axis: int) -> Value:
    return b.emit("torch.cat", *inputs, dim=axis)[0]


@Split.export_rule(DIALECT)
def export_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...] | None:
    parts = static(split)
    if split is None:
        extent = length(b.dims(input), axis)
        size = -(-extent // (num_outputs or b.count))
        parts = tuple(split_sizes(extent, size))
    if parts is None or len(parts) != b.count:
        return None
    keys: dict[str, Any] = {"$": ("tensor",)}
    return b.emit("torch.split", input, facts=[UNKNOWN] * b.count, split_size_or_sections=parts, dim=axis, **keys)


@Tile.export_rule(DIALECT)
def export_tile(b: Builder, input: Value, repeats: Value) -> Value | None:
    times = elements_of(repeats)
    sizes = None if times is None else computed_list(b, times, input)
    return None if sizes is None else called(b, "Tensor.repeat", input=input, sizes=sizes)


@Expand.export_rule(DIALECT)
def export_expand(b: Builder, input: Value, shape: Value) -> Value | None:
    wanted = elements_of(shape)
    target = None if wanted is None else broadcast(b.dims(input), wanted)
    sizes: Any = None if target is None else computed_list(b, target, input)
    if sizes is None:
        # Sizes known at run time only; PyTorch's expand does not accept 1 for a larger size.
        if any(n != 1 for n in b.dims(input)):
            return None
        sizes = shape
    return called(b, "Tensor.expand", input=input, sizes=sizes)


@DepthToSpace.export_rule(DIALECT)
def export_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Value | None:
    """Export DepthToSpace; mode DCR needs reshape, transpose and reshape."""
    if mode == "CRD":
        return called(b, "F.pixel_shuffle", input=input, upscale_factor=blocksize)
    n, c, h, w = b.dims(input, 4)
    if not isinstance(c, int) or not isinstance(h, int) or not isinstance(w, int):
        return None
    k = blocksize
    blocks = _shaped(b, input, [n, k, k, c // (k * k), h, w])
    return (
        None
        if blocks is None
        else _permute_then_reshape(b, blocks, (0, 3, 4, 1, 5, 2), [n, c // (k * k), h * k, w * k])
    )


@SpaceToDepth.export_rule(DIALECT)
def export_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> Value | None:
    n, c, h, w = b.dims(input, 4)
    if not isinstance(c, int) or not isinstance(h, int) or not isinstance(w, int):
        return None
    k = blocksize
    blocks = _shaped(b, input, [n, c, h // k, k, w // k, k])
    return (
        None if blocks is None else _permute_then_reshape(b, blocks, (0, 3, 5, 1, 2, 4), [n, c * k * k, h // k, w // k])
    )


def _permute_then_reshape(b: Builder, x: Value, order: tuple[int, ...], target: Sequence[Dim]) -> Value | None:
    """Transpose, then reshape."""
    dims = b.dims(x)
    fact = TensorFact(dtype_of(x), tuple(dims[axis] for axis in order))
    return _shaped(b, called(b, "Tensor.permute", fact, input=x, dims=order), target)


@Size.export_rule(DIALECT)
def export_size(b: Builder, data: Value) -> Value:
    """Export Size: the product of the dims."""
    dims = b.dims(data)
    if all(isinstance(dim, int) for dim in dims):
        count = prod(dim for dim in dims if isinstance(dim, int))
        return b.emit("Expression", expr=str(count))[0]
    text = reduce(lambda x, y: f"mul({x},{y})", [f"size(@0,{axis})" for axis in range(len(dims))])
    return b.emit("Expression", data, expr=text)[0]


@Shape.export_rule(DIALECT)
def export_shape(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Value | None:
    """Export Shape as a list of sizes, or as a constant if all are static."""
    dims = b.dims(data)
    axes = range(len(dims))[slice(start, end)]
    known = [dim for place in axes if isinstance(dim := dims[place], int)]
    if len(known) == len(axes):
        return vector(b, known)
    entries = ",".join(f"size(@0,{place})" for place in axes)
    return b.emit("Expression", data, expr=f"[{entries}]")[0]


@Col2ImView.export_rule(DIALECT)
def export_col2im(b: Builder, op: Col2ImView) -> Value | None:
    """Export Col2Im over two axes with symmetric padding."""
    size, kernel, pads = static(op.image_shape), static(op.block_shape), op.pads or (0,) * 4
    if size is None or kernel is None or len(size) != 2 or pads[:2] != pads[2:]:
        return None
    return called(
        b,
        "F.fold",
        input=op.input,
        output_size=size,
        kernel_size=kernel,
        dilation=op.dilations or (1, 1),
        padding=pads[:2],
        stride=op.strides or (1, 1),
    )
