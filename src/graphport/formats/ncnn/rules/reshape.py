"""Reshaping of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graphport.core.dims import Dim, product, settle_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import AXES, NONE, Layer, layer
from graphport.formats.ncnn.rules.emitting import (
    KEYS,
    MOST_AXES,
    align_for_concat,
    blob_axis,
    blob_dims,
    computed,
    emitted,
    lengths_of,
    placed,
    refuse_constants,
    reshaped,
    restore_leading_batch,
    restored,
    static_sizes,
)
from graphport.formats.ncnn.rules.integers import moved
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.formats.ncnn.rules.shape_expressions import Length, joined, length_of, lengths_of_text
from graphport.formats.ncnn.rules.windows import along, slides, slides_parameters
from graphport.formats.pytorch.rules.binding import length
from graphport.formats.pytorch.rules.functions.reshape_channels import channel_shuffle, pixel_unshuffle
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.reshape import (
    Col2Im,
    Concat,
    Expand,
    Flatten,
    Reshape,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from graphport.ops.definitions.reshape import resolve_target_shape as target_of
from graphport.ops.lowering.operands import dtype_of, needed, vector
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.reshape import Col2ImView

_ORDERS = {
    1: ("w",),
    2: ("wh", "hw"),
    3: ("whc", "hwc", "wch", "cwh", "hcw", "chw"),
    4: (
        *("whdc", "hwdc", "wdhc", "dwhc", "hdwc", "dhwc", "whcd", "hwcd", "wchd", "cwhd", "hcwd", "chwd"),
        *("wdch", "dwch", "wcdh", "cwdh", "dcwh", "cdwh", "hdcw", "dhcw", "hcdw", "chdw", "dchw", "cdhw"),
    ),
}
"""Axes of the result from the innermost out, by number, for blobs of so many axes."""


@layer("Reshape")
def reshape(at: Layer) -> Value:
    """Reshape to sizes in parameters or in a size expression (parameter 6); 0 copies a size, -1 is inferred."""
    text = at.text(6)
    if text is not None:
        found = lengths_of_text(at, text)[::-1]
    else:
        given = {name: at.integer(key, NONE) for name, key in KEYS.items()}
        names = "cdhw" if given["d"] != NONE else "chw" if given["c"] != NONE else "hw" if given["h"] != NONE else "w"
        found = [given[name] for name in names]
    axes = [at.integer(key, _NO_BATCH) for key in (12, 13)]
    if axes != [_NO_BATCH, _NO_BATCH]:
        return _with_batch(at, found, *axes)
    if len(found) not in AXES:
        message = f"the target shape has {len(found)} dims, expected 1 to 4"
        raise UnsupportedError(message)
    copied = [length_of(at, 0, name) if n == 0 else n for name, n in zip(AXES[len(found)], found, strict=True)]
    return at.b(Reshape, at.x, joined(at, [1, *copied]))


def _with_batch(at: Layer, target: Sequence[Length], before: int, behind: int) -> Value:
    """Reshape with a batch axis among the sizes: at index `before` of the input and index `behind` of the target.

    A target size of 0 copies the input size at the same index, as in ONNX.
    """
    rank = at.rank
    own: list[Length] = [length_of(at, 0, name) for name in AXES[rank]]
    if before != _NO_BATCH:
        own.insert(before % (rank + 1), 1)
    if any(n == 0 and place >= len(own) for place, n in enumerate(target)):
        message = "the target shape copies the size of an axis that the blob does not have"
        raise ShapeError(message)
    lengths = [own[place] if n == 0 else n for place, n in enumerate(target)]
    if behind != _NO_BATCH:
        taken = lengths.pop(behind % len(lengths))
        if taken not in (1, -1):
            message = "the target shape has a batch size other than 1"
            raise UnsupportedError(message)
    if not 1 <= len(lengths) <= MOST_AXES:
        message = f"the target shape has {len(lengths)} dims besides the batch"
        raise ShapeError(message)
    return at.b(Reshape, at.x, joined(at, [1, *lengths]))


_NO_BATCH = 233
"""Batch axis parameter for "no batch axis"."""


@layer("Permute")
def permute(at: Layer) -> Value:
    own, order = AXES[at.rank], at.choice(0, _ORDERS[at.rank], "the permutation")
    return at.b(Transpose, at.x, perm=(0, *(own.index(name) + 1 for name in reversed(order))))


def order_of(perm: Sequence[int]) -> int | None:
    """Return Permute's number for a permutation that keeps the batch axis first; `None` if there is no number."""
    rank = len(perm) - 1
    if not perm or perm[0] != 0 or rank not in AXES:
        return None
    name = "".join(AXES[rank][axis - 1] for axis in reversed(perm[1:]))
    return _ORDERS[rank].index(name) if name in _ORDERS[rank] else None


@layer("Concat")
def concat(at: Layer) -> Value:
    return at.b(Concat, *at.inputs, axis=at.axis(at.integer(0)))


@layer("Slice")
def slice_(at: Layer) -> Sequence[Value]:
    """Slice: consecutive parts by size or by index; unspecified parts share the remainder."""
    axis = at.axis(at.integer(1))
    extent = length(at.b.dims(at.x), axis)
    count = at.b.count
    indices = at.array(2)
    if indices:
        bounds = [0, *(int(p) + extent if p < 0 else int(p) for p in indices), extent]
        parts = [q - p for p, q in pairwise(bounds)]
    else:
        parts = _shared([int(n) for n in at.array(0)], extent)
    if len(parts) != count or sum(parts) != extent or min(parts) < 0:
        message = f"the slice sizes {parts} are not {count} sizes with the sum {extent}"
        raise ShapeError(message)
    return (at.x,) if count == 1 else at.b.results(Split, count, at.x, vector(at.b, parts), axis=axis)


def _shared(parts: list[int], extent: int) -> list[int]:
    found: list[int] = []
    for index, part in enumerate(parts):
        left = extent - sum(found)
        found.append(left // (len(parts) - index) if part == NONE else part)
    return found


@layer("Squeeze")
def squeeze(at: Layer) -> Value:
    axes = at.array(3)
    chosen = [at.axis(int(axis)) for axis in axes]
    if not axes:
        chosen = [place for place, name in enumerate(AXES.get(at.rank, ""), 1) if at.integer(KEYS[name])]
    chosen = sorted({axis for axis in chosen if settle_equal(at.b.dims(at.x)[axis], 1)})
    # A blob has an axis at least.
    chosen = chosen[: at.rank - 1]
    return at.b(Squeeze, at.x, chosen) if chosen else at.x


@layer("ExpandDims")
def expand_dims(at: Layer) -> Value:
    axes = at.array(3)
    if not axes:
        message = "ExpandDims without the parameter `axes`"
        raise UnsupportedError(message)
    rank = at.rank + len(axes)
    outside = [int(axis) for axis in axes if not -rank <= axis < rank]
    if outside or rank > MOST_AXES:
        # ncnn ignores them, and the next layer reads a blob with other axes than expected.
        message = f"axis {outside[0] if outside else int(axes[-1])} is out of range for rank {min(rank, MOST_AXES)}"
        raise UnsupportedError(message)
    return at.b(Unsqueeze, at.x, sorted(int(axis) % rank + 1 for axis in axes))


@layer("Tile")
def tile(at: Layer) -> Value:
    repeats = [int(n) for n in at.array(2)]
    if repeats:
        missing = len(repeats) - at.rank
        # If an image becomes a volume, channels are kept, and the depth is new.
        new = [2] if at.rank == 3 and missing == 1 else list(range(1, 1 + missing))
        x = at.b(Unsqueeze, at.x, new) if missing > 0 else at.x
        return at.b(Tile, x, [1, *[1] * -missing, *repeats])
    times = [1] * (at.rank + 1)
    times[at.axis(at.integer(0))] = at.integer(1, 1)
    return at.b(Tile, at.x, times)


RULES.having(channel_shuffle=channel_shuffle, pixel_unshuffle=pixel_unshuffle).lower("""
Flatten(x) -> Flatten(x)
PixelShuffle(x, *, p0=1, p1=0) -> DepthToSpace(x, blocksize=p0, mode=None if p1 else "CRD")
# Blocks of pixels as channels: channels come first among those of a pixel, or last.
Reorg(x, *, p0=1, p1=0)
    -> p1: SpaceToDepth(x, blocksize=p0)
    -> pixel_unshuffle(x, p0)
ShuffleChannel(x, *, p0=1, p1=0) -> channel_shuffle(x, channels(x) // p0 if p1 else p0)
""")


@layer("Fold")
def fold(at: Layer) -> Value:
    picture, kernel = (at.integer(21, at.integer(20)), at.integer(20)), along(at, 2, 1, 0)
    return at.b(Col2Im, at.x, picture, kernel, **slides(at, 2))


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _into(b: Builder, x: Value, target: Sequence[Dim], batch: int | None = None) -> Value | None:
    """Reshape to `target`; `batch` is an axis of length 1 of the result that its blob may lack."""
    lengths = blob_dims(b, x)
    kept = None
    if len(target) > 1:
        kept = 0 if target[0] == 1 else batch if batch is not None and target[batch] == 1 else None
    if kept is None and len(target) > MOST_AXES and 1 in target:
        kept = list(target).index(1)
    rest = [n for axis, n in enumerate(target) if axis != kept] or [1]
    fact = TensorFact(dtype_of(x), tuple(target))
    if rest == lengths:
        return placed(emitted(b, "Noop", x, fact=fact), kept)
    return placed(reshaped(b, x, rest), kept)


@Reshape.export_rule("ncnn")
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Value | None:
    numbers = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    if numbers is None:
        message = "the shape operand is not constant"
        raise UnsupportedError(message)
    target = target_of(b.dims(data), numbers, copies_zero=not allowzero)
    return _into(b, data, target, _followed(b, data, target))


def _followed(b: Builder, x: Value, target: Sequence[Dim]) -> int | None:
    """Return the axis of length 1 of `target` with as many elements before it as before the batch axis of `x`."""
    batch, dims = batch_of(x), b.dims(x)
    if batch is None:
        return None

    def before(shape: Sequence[Dim], axis: int) -> Dim:
        return product(shape[:axis])

    candidates = [axis for axis, dim in enumerate(target) if dim == 1 and before(target, axis) == before(dims, batch)]
    return batch if batch in candidates else candidates[0] if candidates else None


@Flatten.export_rule("ncnn")
def export_flatten(b: Builder, input: Value, *, axis: int = 1) -> Value | None:
    dims = b.dims(input)
    place = axis + len(dims) if axis < 0 else axis
    if batch_of(input) == 0 and place == 1:
        blob_dims(b, input)
        return emitted(b, "Flatten", input)
    return _into(b, input, [product(dims[:place]), product(dims[place:])])


@Squeeze.export_rule("ncnn")
def export_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Value | None:
    dims, batch = b.dims(data), batch_of(data)
    gone = {axis % len(dims) for axis in needed(axes, "the squeezed axes")}
    place = None if batch is None or batch in gone else batch - sum(axis < batch for axis in gone)
    return _into(b, data, [dim for axis, dim in enumerate(dims) if axis not in gone], place)


@Unsqueeze.export_rule("ncnn")
def export_unsqueeze(b: Builder, data: Value, axes: Value) -> Value | None:
    known_axes = needed(axes, "the inserted axes")
    rank = len(b.dims(data)) + len(known_axes)
    new = {axis % rank for axis in known_axes}
    if len(new) != len(known_axes):
        message = f"axes {list(known_axes)} contain duplicates"
        raise UnsupportedError(message)
    old = [axis for axis in range(rank) if axis not in new]
    rest = iter(b.dims(data))
    batch = batch_of(data)
    target = [1 if axis in new else next(rest) for axis in range(rank)]
    return _into(b, data, target, None if batch is None or batch >= len(old) else old[batch])


@Transpose.export_rule("ncnn")
def export_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Value | None:
    """Export Transpose: permute the blob's axes; the batch may move anywhere."""
    lengths, batch, dims = blob_dims(b, data), batch_of(data), b.dims(data)
    order = tuple(reversed(range(len(dims)))) if perm is None else perm
    place = None if batch is None else order.index(batch)
    own = tuple(blob_axis(axis, len(dims), batch) for axis in order if axis != batch)
    if own == tuple(range(len(lengths))):
        return restore_leading_batch(b, emitted(b, "Noop", data, fact=b.outcome), place)
    number = order_of((0, *(axis + 1 for axis in own)))
    if number is None:
        message = f"unsupported permutation {order}"
        raise UnsupportedError(message)
    return restore_leading_batch(b, emitted(b, "Permute", data, fact=b.outcome, p0=number), place)


@Concat.export_rule("ncnn")
def export_concat(b: Builder, *inputs: Value, axis: int) -> Value:
    dims = b.dims(inputs[0])
    blobs, batch = align_for_concat(b, axis % len(dims), *inputs)
    return restore_leading_batch(
        b, emitted(b, "Concat", *blobs, fact=b.outcome, p0=blob_axis(axis, len(dims), batch)), batch
    )


@Split.export_rule("ncnn")
def export_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...] | None:
    refuse_constants(input)
    lengths, dims, batch = blob_dims(b, input), b.dims(input), batch_of(input)
    if axis % len(dims) == batch and b.count == 1:
        return (emitted(b, "Noop", input),)
    place = blob_axis(axis, len(dims), batch)
    if split is not None:
        parts = constant_numbers(split)
    else:
        (extent,) = static_sizes(input, [lengths[place]])
        size = max(-(-extent // (num_outputs or b.count)), 1)
        parts = tuple(min(size, extent - start) for start in range(0, extent, size))
    if parts is None or len(parts) != b.count:
        message = "the split sizes are not constant"
        raise UnsupportedError(message)
    along = axis % len(dims)
    facts = [TensorFact(dtype_of(input), (*dims[:along], int(n), *dims[along + 1 :])) for n in parts]
    attributes: dict[str, object] = {"0": tuple(map(int, parts)), "1": place}
    found = b.emit("Slice", input, facts=facts, **attributes)  # pyright: ignore[reportArgumentType]
    for part in found:
        moved(part, input)
    return tuple(restore_leading_batch(b, part, batch) for part in found)


@Tile.export_rule("ncnn")
def export_tile(b: Builder, input: Value, repeats: Value) -> Value | None:
    blob_dims(b, input)
    times, batch = needed(repeats, "the repeats"), batch_of(input)
    if 0 in times:
        message = f"the result is empty: {input.name} is repeated 0 times"
        raise UnsupportedError(message)
    if batch is not None and times[batch] != 1:
        return emitted(b, "Tile", _to_batched_blob(b, input), p2=times)
    return emitted(b, "Tile", input, p2=tuple(n for axis, n in enumerate(times) if axis != batch))


def _to_batched_blob(b: Builder, x: Value) -> Value:
    """Return `x` as a blob that contains all axes, including the batch.

    Raises:
        UnsupportedError: `x` has more axes than a blob.
    """
    if len(b.dims(x)) > MOST_AXES:
        message = (
            f"{x.name} is {x.fact}: repetition along the batch requires at most {MOST_AXES} axes including the batch"
        )
        raise UnsupportedError(message)
    return restored(b, x, x.fact, None)


@Expand.export_rule("ncnn")
def export_expand(b: Builder, input: Value, shape: Value) -> Value | None:
    """Export Expand: Tile along axes of length 1, or Interp for sizes that are computed at run time."""
    wanted = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    if wanted is None:
        message = "the shape operand is not constant"
        raise UnsupportedError(message)
    dims = b.dims(input)
    rank = max(len(dims), len(wanted))
    if not rank:
        return emitted(b, "Noop", input)
    target = [1] * (rank - len(wanted)) + list(wanted)
    x = input if rank == len(dims) else _into(b, input, [*[1] * (rank - len(dims)), *dims])
    if x is None:
        return None
    blob_dims(b, x)
    if (batch := batch_of(x)) is not None and target[batch] != 1:
        x = _to_batched_blob(b, x)
    lengths, batch = blob_dims(b, x), batch_of(x)
    rest = [1 if n == own else n for axis, (n, own) in enumerate(zip(target, b.dims(x), strict=True)) if axis != batch]
    if len(rest) != len(lengths):
        message = f"{input.name} of rank {len(dims)} cannot be expanded to rank {rank} in a blob"
        raise UnsupportedError(message)
    if not all(isinstance(n, int) for n, m in zip(rest, lengths, strict=True) if m == 1):
        return restored(b, _repeat_single_elements(b, x, lengths, rest), b.outcome, batch)
    times = tuple(n if m == 1 else 1 for n, m in zip(rest, lengths, strict=True))
    return emitted(b, "Tile", x, p2=times) if any(n != 1 for n in times) else emitted(b, "Noop", x)


def _repeat_single_elements(b: Builder, x: Value, lengths: Sequence[Dim], target: Sequence[Dim]) -> Value:
    """Repeat axes of length 1 to run-time sizes by Interp with nearest interpolation."""
    own, start = list(lengths), 0
    while start < len(own):
        stop = start
        while stop < len(own) and own[stop] == 1 and target[stop] != 1:
            stop += 1
        if stop > start:
            outer, count, inner = product(own[:start]), product(target[start:stop]), product(own[stop:])
            wide = reshaped(b, x, [outer, 1, inner])
            text, blobs = computed(b, [inner, count], wide)
            fact = TensorFact(DType.FLOAT32, (1, outer, count, inner))
            x = emitted(b, "Interp", *blobs, fact=fact, p0=1, p9=text)
            own[start:stop] = target[start:stop]
        start = stop + 1
    return x


RULES.export_rules("""
DepthToSpace -> PixelShuffle(item(input), p0=blocksize, p1=1 if mode == "DCR" else 0)
SpaceToDepth -> Reorg(item(input), p0=blocksize, p1=1)
""")


@Col2ImView.export_rule("ncnn")
def export_col2im(b: Builder, op: Col2ImView) -> Value | None:
    """Export Col2Im over height and width as Fold."""
    picture, kernel = needed(op.image_shape, "the image sizes"), needed(op.block_shape, "the block sizes")
    lengths = lengths_of(b, op.input)
    if len(picture) != 2 or len(lengths) != 2:
        message = "Col2Im over axes other than height and width"
        raise UnsupportedError(message)
    height, width = picture
    pads = op.pads or (0, 0, 0, 0)
    window = slides_parameters(kernel, op.dilations or (1, 1), op.strides or (1, 1), pads[:2], pads[2:])
    return emitted(b, "Fold", op.input, **window, p20=width, p21=height)
