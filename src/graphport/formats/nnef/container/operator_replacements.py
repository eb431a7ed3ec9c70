"""Replacement of standard operations that some readers lack by operations that all readers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.build import DIALECT, DTYPE
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.evaluation_frame import open_dims
from graphport.formats.nnef.container.float_copies import float_copy, gather_by_mask
from graphport.formats.nnef.container.item_types import Converted
from graphport.formats.nnef.container.replacement import Replacement
from graphport.formats.nnef.container.syntax import Edition
from graphport.ir import rewrite
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from graphport.ir.graph import Graph, Node, Value

Rule: TypeAlias = Callable[["Replacement"], "Sequence[Value] | None"]

_MOST_PIECES = 1024
_MOST_INDICES = 1 << 16
"""Indices that are looked at for ranges."""
_MOST_WEIGHTS = 1 << 22
"""Entries of a matrix that interpolates along an axis."""
COSTLY = frozenset(["deconv", "multilinear_upsample"])
"""Operations whose replacement is costly: replaced only if tract must read the text."""
_MODES: dict[str, Any] = {"replicate": "edge", "reflect-even": "symmetric"}
"""Borders that not every reader has, as NumPy calls them."""
_GELU = 1.702
"""The slope in the standard's approximation of `gelu`."""


def portable(graph: Graph, edition: Edition, keep: Container[str] = ()) -> Graph:
    """Replace operations that some reader lacks, if possible.

    For the final edition these are the operations that tract lacks, for the provisional one those added later. Returns
    a copy if there are any, else the graph itself. Op types in `keep` are not replaced.
    """
    known = standard(edition) if edition is Edition.PROVISIONAL else keep
    if not any(_rule(node, known) for inner in walk(graph) for node in inner):
        return graph
    result = rewrite.copy(graph)
    for inner in list(walk(result)):
        for node in inner:
            rule = _rule(node, known)
            stated = None if rule is None else rule(Replacement(inner, node, is_shared="deconv" not in known))
            if stated is not None:
                _take_over(inner, node, stated)
    rewrite.remove_dead(result, keep=is_update)
    return result


def is_update(node: Node) -> bool:
    """Whether a node is an `update`, which has an effect without a consumer."""
    return node.dialect == DIALECT and node.op_type == "update"


def _rule(node: Node, known: Container[str]) -> Rule | None:
    return _RULES.get(node.op_type) if node.dialect == DIALECT and node.op_type not in known else None


def _take_over(graph: Graph, node: Node, stated: Sequence[Value]) -> None:
    for old, new in zip(node.outputs, stated, strict=True):
        if old is not None:
            rewrite.swap_names(old, new)
            new.fact = old.fact
            if old.has_notes:
                new.notes.update(old.notes)
            old.replace_uses(new)
    graph.remove(node)


def _rcp(m: Replacement) -> Sequence[Value]:
    return [m.emit("div", 1.0, m.x)]


def _rsqr(m: Replacement) -> Sequence[Value]:
    return [m.emit("div", 1.0, m.emit("sqr", m.x))]


def _rsqrt(m: Replacement) -> Sequence[Value]:
    return [m.emit("div", 1.0, m.emit("sqrt", m.x))]


def _silu(m: Replacement) -> Sequence[Value]:
    return [m.emit("mul", m.x, m.emit("sigmoid", m.x))]


def _gelu(m: Replacement) -> Sequence[Value]:
    return [m.emit("mul", m.x, m.emit("sigmoid", m.emit("mul", m.x, _GELU)))]


def _selu(m: Replacement) -> Sequence[Value]:
    return [m.emit("mul", _elu_of(m), m.float_attribute("lambda"))]


def _elu(m: Replacement) -> Sequence[Value] | None:
    """Replace elu with alpha != 1, which tract ignores."""
    return None if m.float_attribute("alpha") == 1 else [_elu_of(m)]


def _elu_of(m: Replacement) -> Value:
    below = m.emit("mul", m.emit("sub", m.emit("exp", m.x), 1.0), m.float_attribute("alpha"))
    fact = m.node.results[0].fact
    is_below = m.emit("lt", m.x, 0.0, fact=fact.with_dtype(DType.BOOL) if isinstance(fact, TensorFact) else fact)
    return m.emit("select", is_below, below, m.x)


def _cast(m: Replacement) -> Sequence[Value] | None:
    """Cast a logical tensor to numbers with select, or numbers to a logical tensor with a comparison."""
    source, target = m.dtype(), m.node.attributes.get(DTYPE)
    if not isinstance(target, DType):
        return None
    if source is DType.BOOL and target.is_floating:
        return [m.emit("select", m.x, 1.0, 0.0)]
    if source is DType.BOOL and target.is_integer and (shape := m.shape()) is not None:
        one, zero = (m.tensor(np.full([1] * len(shape), number)) for number in (1, 0))
        return [m.emit("select", m.x, one, zero)]
    if source is not None and source.is_floating and target is DType.BOOL:
        return [m.emit("ne", m.x, 0.0)]
    if source is not None and source.is_integer and target.is_floating:
        return _integers_to_scalars(m)
    return None


def _integers_to_scalars(m: Replacement) -> Sequence[Value] | None:
    """Cast integers to real numbers: literals are converted, other values only for tract."""
    if m.x.is_literal and m.x.storage is not None:
        number = m.stored(Converted(m.x.storage, DType.FLOAT32), is_literal=True)
        return [m.emit("copy", number) if m.node.results[0].is_output else number]
    twin = float_copy(m, m.x) if m.is_shared else None
    if twin is None:
        return None
    return [m.emit("copy", twin) if twin.is_constant else twin]


def _split(m: Replacement) -> Sequence[Value] | None:
    axis, ratios, shape = int(m.float_attribute("axis")), m.integers_attribute("ratios"), m.shape()
    extent = None if shape is None else shape[axis]
    if not isinstance(extent, int):
        return None
    unit = extent // sum(ratios)
    ends = [int(end) * unit for end in np.cumsum(ratios)]
    return [
        m.emit("slice", m.x, fact=value.fact, axes=(axis,), begin=(end - ratio * unit,), end=(end,), stride=())
        for value, end, ratio in zip(m.node.results, ends, ratios, strict=True)
    ]


def _slice(m: Replacement) -> Sequence[Value] | None:
    """Replace slices with negative strides by single slices, because tract slices forwards only, if there are few.

    With positive strides: tract 0.23 moves a strided slice before earlier operations and fails on reshapes. The
    elements of one stride get an axis of their own.
    """
    x, shape = m.x, m.shape()
    steps = m.integers_attribute("stride")
    is_late = m.is_shared and x.producer is not None and any(step > 1 for step in steps)
    if shape is None or (all(step > 0 for step in steps) and not is_late):
        return None
    positions: list[tuple[int, int, range]] = []
    if open_dims({"ends": (m.integers_attribute("begin"), m.integers_attribute("end"))}):
        return None
    for axis, begin, end, step in zip(
        m.integers_attribute("axes"), m.integers_attribute("begin"), m.integers_attribute("end"), steps, strict=True
    ):
        extent = shape[axis]
        if not isinstance(extent, int):
            return None
        positions.append((axis, extent, _slice_indices(extent, begin, end, step)))
    if any(not taken or (taken.step < 0 and len(taken) > _MOST_PIECES) for _, _, taken in positions):
        return None
    for axis, extent, taken in positions:
        x = _strided(m, x, axis, extent, taken) if is_late and taken.step > 1 else _take_indices(m, x, axis, taken)
    return [x]


def _take_indices(m: Replacement, x: Value, axis: int, taken: range) -> Value:
    free = TensorFact(m.dtype(), None)
    ends = [(at, at + 1, 1) for at in taken] if taken.step < 0 else [(taken.start, taken.stop, taken.step)]
    parts = [
        m.emit("slice", x, fact=free, axes=(axis,), begin=(begin,), end=(end,), stride=(step,))
        for begin, end, step in ends
    ]
    return parts[0] if len(parts) == 1 else m.emit("concat", *parts, fact=free, axis=axis)


def _strided(m: Replacement, x: Value, axis: int, extent: int, taken: range) -> Value:
    """Take every n-th element: reshape to chunks of stride length and slice the first of each.

    The chunks begin before the first index if the last one would end beyond the axis; otherwise the last element is
    sliced separately.
    """
    free, step, first, last = TensorFact(m.dtype(), None), taken.step, taken[0], taken[-1]

    def cut(of: Value, at: int, begin: int, end: int) -> Value:
        return m.emit("slice", of, fact=free, axes=(at,), begin=(begin,), end=(end,), stride=())

    if len(taken) == 1:
        return cut(x, axis, first, first + 1)
    early = max(last + step - extent, 0)
    if early > first:
        rest = _strided(m, x, axis, extent, taken[:-1])
        return m.emit("concat", rest, cut(x, axis, last, last + 1), fact=free, axis=axis)
    pieces = cut(x, axis, first - early, last + step - early)
    pieces = m.emit("reshape", pieces, fact=free, shape=(len(taken), step), axis_start=axis, axis_count=1)
    return m.emit("squeeze", cut(pieces, axis + 1, early, early + 1), fact=free, axes=(axis + 1,))


def _slice_indices(extent: int, begin: int, end: int, step: int) -> range:
    """Return the indices that a slice takes from an axis."""
    first, last = (number + extent if number < 0 else number for number in (begin, end))
    if step < 0:
        return range(min(first, extent - 1), max(last, -1), step)
    return range(first, min(last, extent) or extent, step)


def _pad(m: Replacement) -> Sequence[Value] | None:
    """Replace unsupported borders by concatenated slices, and negative padding by a slice."""
    pairs, shape = cast("tuple[tuple[int, int], ...]", m.node.attributes["padding"]), m.shape()
    border = m.node.attributes["border"]
    is_put_together = border in _MODES
    if shape is None or not (is_put_together or any(min(pair) < 0 for pair in pairs)):
        return None
    x, free = m.x, TensorFact(m.dtype(), None)
    for axis, (front, behind) in enumerate(pairs):
        extent = shape[axis]
        if not (front or behind) or (not is_put_together and min(front, behind) >= 0):
            continue
        if not isinstance(extent, int) or extent < 1:
            return None
        begin, end = max(-front, 0), extent - max(-behind, 0)
        grown = (max(front, 0), max(behind, 0)) if is_put_together else (0, 0)
        if end <= begin or sum(grown) > _MOST_PIECES:
            return None
        # Repeated elements are near the ends; the middle may have any length.
        near = min(max(grown) + 1, end - begin)
        mode = _MODES.get(str(border), "edge")
        front_ = np.pad(np.arange(begin, begin + near), (grown[0], 0), mode)[: grown[0]]
        behind_ = np.pad(np.arange(end - near, end), (0, grown[1]), mode)[near:]
        before, after = ([(int(at), int(at) + 1) for at in each] for each in (front_, behind_))
        inner = [*before, (begin, end), *after]
        parts = [
            x
            if bounds == (0, extent)
            else m.emit("slice", x, fact=free, axes=(axis,), begin=bounds[:1], end=bounds[1:], stride=())
            for bounds in inner
        ]
        x = parts[0] if len(parts) == 1 else m.emit("concat", *parts, fact=free, axis=axis)
    rest = tuple((max(front, 0), max(behind, 0)) for front, behind in pairs)
    if is_put_together or not any(map(any, rest)):
        return [m.emit("copy", x)]
    value = m.node.attributes.get("value", 0.0)
    return [m.emit("pad", x, padding=rest, border=border, value=value)]


def _gather(m: Replacement) -> Sequence[Value] | None:
    """Replace a gather with constant indices by concatenated ranges."""
    axis, shape, indices = int(m.float_attribute("axis")), m.shape(), m.node.operands[1]
    storage = indices.storage if indices.is_constant else None
    extent = None if shape is None else shape[axis]
    if storage is None:
        taken = gather_by_mask(m, axis) if m.is_shared else None
        return None if taken is None else [taken]
    if not 0 < storage.count <= _MOST_INDICES or not isinstance(extent, int):
        return None
    positions = storage.numpy().reshape(-1).astype(np.int64)
    ranges = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    if positions.min() < 0 or positions.max() >= extent or len(ranges) > _MOST_PIECES:
        return None
    free = TensorFact(m.dtype(), None)
    bounds = [(int(positions[0]), int(positions[-1]) + 1) for positions in ranges]
    parts = [
        m.emit("slice", m.x, fact=free, axes=(axis,), begin=(first,), end=(last,), stride=()) for first, last in bounds
    ]
    y = parts[0] if len(parts) == 1 else m.emit("concat", *parts, fact=free, axis=axis)
    if len(storage.shape) == 1:
        return [y]
    if not storage.shape:
        return [m.emit("squeeze", y, axes=(axis,))]
    return [m.emit("reshape", y, shape=storage.shape, axis_start=axis, axis_count=1)]


def _unstack(m: Replacement) -> Sequence[Value] | None:
    axis, shape = int(m.float_attribute("axis")), m.shape()
    if shape is None or len(m.node.results) != shape[axis]:
        return None
    fact = TensorFact(None, None)
    parts = [
        m.emit("slice", m.x, fact=fact, axes=(axis,), begin=(place,), end=(place + 1,), stride=())
        for place in range(len(m.node.results))
    ]
    return [m.emit("squeeze", part, axes=(axis,)) for part in parts]


def _copy_n(m: Replacement) -> Sequence[Value]:
    return [m.emit("copy", m.x) for _ in m.node.results]


def _add_n(m: Replacement) -> Sequence[Value]:
    total = m.emit("copy", m.x) if len(m.node.operands) == 1 else m.x
    for value in m.node.operands[1:]:
        total = m.emit("add", total, value)
    return [total]


def _box(m: Replacement, op_type: str, size: tuple[int, ...], stride: tuple[int, ...], **attributes: Any) -> Value:
    still = ((0, 0),) * len(size)
    return m.emit(op_type, m.x, size=size, border="constant", padding=still, stride=stride, dilation=(), **attributes)


def _nearest_upsample(m: Replacement) -> Sequence[Value]:
    """Repeat elements by unsqueeze, tile and reshape: tract 0.23 cannot fuse `debox` into a convolution."""
    shape = m.shape()
    rank, y, free = 2 + len(m.integers_attribute("factor")), m.x, TensorFact(m.dtype(), None)
    for axis, factor in enumerate(m.integers_attribute("factor"), 2):
        if factor == 1:
            continue
        size = shape[axis] if shape is not None else None
        y = m.emit("unsqueeze", y, fact=free, axes=(axis + 1,))
        y = m.emit("tile", y, fact=free, repeats=tuple(factor if place == axis + 1 else 1 for place in range(rank + 1)))
        merged = (size * factor if isinstance(size, int) else -1,)
        y = m.emit("reshape", y, fact=free, shape=merged, axis_start=axis, axis_count=2)
    return [y if y is not m.x else m.emit("copy", y)]


def _nearest_downsample(m: Replacement) -> Sequence[Value]:
    factor = (1, 1, *m.integers_attribute("factor"))
    return [_box(m, "box", (1,) * len(factor), factor, normalize=False)]


def _area_downsample(m: Replacement) -> Sequence[Value]:
    factor = (1, 1, *m.integers_attribute("factor"))
    return [_box(m, "box", factor, factor, normalize=True)]


def _multilinear_upsample(m: Replacement) -> Sequence[Value] | None:
    """Upsample each axis by a product with its matrix of interpolation weights."""
    method, shape, factors = m.node.attributes["method"], m.shape(), m.integers_attribute("factor")
    if shape is None or (m.node.attributes["border"] != "replicate" and method != "aligned"):
        return None
    x, rank, free = m.x, len(shape), TensorFact(m.dtype(), None)
    for axis, factor in enumerate(factors, 2):
        extent = shape[axis]
        if not isinstance(extent, int) or not 0 < extent * extent * factor <= _MOST_WEIGHTS:
            return None
        last = [other for other in range(rank) if other != axis] + [axis]
        weights = m.tensor(_interpolation(extent, factor, str(method)).T.reshape(*[1] * (rank - 2), extent, -1))
        moved = x if axis == rank - 1 else m.emit("transpose", x, fact=free, axes=tuple(last))
        x = m.emit("matmul", moved, weights, fact=free, transposeA=False, transposeB=False)
        if axis < rank - 1:
            x = m.emit("transpose", x, fact=free, axes=tuple(int(place) for place in np.argsort(last)))
    return [x]


def _interpolation(extent: int, factor: int, method: str) -> Any:
    """Return the interpolation matrix: a row per output element, a column per input element."""
    coordinates = np.arange(extent * factor, dtype=np.float64)
    if method == "aligned":
        coordinates *= (extent - 1) / max(extent * factor - 1, 1)
    else:
        coordinates = (coordinates + 0.5) / factor - 0.5 if method == "symmetric" else coordinates / factor
    coordinates = np.clip(coordinates, 0, extent - 1)
    return np.maximum(1 - np.abs(coordinates[:, None] - np.arange(extent)), 0).astype(np.float32)


def _deconv(m: Replacement) -> Sequence[Value] | None:
    """Replace `deconv` by a convolution of the input with inserted zeros: readers disagree on the filter layout."""
    given, shape = m.node.operands[1], m.shape()
    dims = given.fact.dims if isinstance(given.fact, TensorFact) else ()
    weights = tuple(dim for dim in dims if isinstance(dim, int))
    extents = [extent for extent in (shape or ())[2:] if isinstance(extent, int)]
    if shape is None or len(weights) != len(shape) or len(extents) < len(shape) - 2:
        return None
    if not given.is_constant and max(weights[2:], default=0) > _MOST_PIECES:
        return None
    rank, kernel = len(extents), weights[2:]
    stride, dilation = (m.integers_attribute(name) or (1,) * rank for name in ("stride", "dilation"))
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    full = [(n - 1) * s + r + 1 for n, s, r in zip(extents, stride, reach, strict=True)]
    wanted = m.integers_attribute("output_shape")[2:]
    pairs = cast("tuple[tuple[int, int], ...]", m.node.attributes["padding"])
    if not pairs:
        totals = [f - w for f, w in zip(full, wanted or np.multiply(extents, stride).tolist(), strict=True)]
        # Padding that the filter does not reach is at the end.
        pairs = tuple((max(total, 0) // 2, total - max(total, 0) // 2) for total in totals)
    if wanted:
        pairs = tuple((p, f - p - w) for (p, _), f, w in zip(pairs, full, wanted, strict=True))
    x, free = m.x, TensorFact(m.dtype(), None)
    if max(stride) > 1:
        still: dict[str, Any] = {"border": "constant", "padding": ((0, 0),) * (rank + 2), "dilation": ()}
        x = m.emit(
            "debox",
            x,
            fact=free,
            size=(1,) * (rank + 2),
            stride=(1, 1, *stride),
            **still,
            output_shape=(),
            normalize=False,
        )
    grown = [(r - p, r - q) for r, (p, q) in zip(reach, pairs, strict=True)]
    for axis, (front, behind) in enumerate(grown):
        extent = full[axis] - reach[axis]
        begin, end = max(-front, 0), extent - max(-behind, 0)
        if end <= begin:
            return None
        if (begin, end) != (0, extent):
            x = m.emit("slice", x, fact=free, axes=(axis + 2,), begin=(begin,), end=(end,), stride=())
    groups = int(m.float_attribute("groups")) or weights[0]
    flipped = _flipped(m, given, weights, groups)
    padding = tuple((max(front, 0), max(behind, 0)) for front, behind in grown)
    stated: dict[str, Any] = {"border": "constant", "padding": padding, "stride": (), "groups": groups}
    return [m.emit("conv", x, flipped, *m.node.operands[2:], dilation=tuple(dilation), **stated)]


def _flipped(m: Replacement, filter_: Value, shape: tuple[int, ...], groups: int) -> Value:
    """Reverse the spatial axes of a filter and swap its input and output channels within each group."""
    split = (groups, shape[0] // groups, *shape[1:])
    whole = (groups * shape[1], shape[0] // groups, *shape[2:])
    order = (0, 2, 1, *range(3, len(split)))
    if filter_.storage is not None and filter_.is_constant:
        array = filter_.storage.numpy().reshape(split).transpose(order).reshape(whole)
        return m.tensor(np.flip(array, axis=tuple(range(2, len(shape)))))
    free = TensorFact(m.dtype(), None)
    y = m.emit("reshape", filter_, fact=free, shape=split, axis_start=0, axis_count=-1)
    y = m.emit("transpose", y, fact=free, axes=order)
    y = m.emit("reshape", y, fact=free, shape=whole, axis_start=0, axis_count=-1)
    for axis, extent in enumerate(shape[2:], 2):
        parts = [
            m.emit("slice", y, fact=free, axes=(axis,), begin=(place,), end=(place + 1,), stride=())
            for place in reversed(range(extent))
        ]
        y = parts[0] if len(parts) == 1 else m.emit("concat", *parts, fact=free, axis=axis)
    return y


def _local_response(m: Replacement) -> Sequence[Value] | None:
    """Normalize over channels with the channels transposed to the last axis: tract supports spatial windows only."""
    size = m.integers_attribute("size")
    rank = len(size)
    if rank < 3 or any(extent != 1 for axis, extent in enumerate(size) if axis != 1):
        return None
    free = TensorFact(m.dtype(), None)
    last = m.emit("transpose", m.emit("sqr", m.x), fact=free, axes=(0, *range(2, rank), 1))
    window = (*[1] * (rank - 1), size[1])
    still: dict[str, Any] = {"border": "constant", "padding": (), "stride": (), "dilation": (), "normalize": True}
    mean = m.emit(
        "transpose", m.emit("box", last, fact=free, size=window, **still), axes=(0, rank - 1, *range(1, rank - 1))
    )
    sigma = m.emit("add", m.emit("mul", mean, m.float_attribute("alpha")), m.float_attribute("bias"))
    return [m.emit("div", m.x, m.emit("pow", sigma, m.float_attribute("beta")))]


_RULES: dict[str, Rule] = {
    "slice": _slice,
    "pad": _pad,
    "deconv": _deconv,
    "multilinear_upsample": _multilinear_upsample,
    "rcp": _rcp,
    "rsqr": _rsqr,
    "rsqrt": _rsqrt,
    "silu": _silu,
    "gelu": _gelu,
    "elu": _elu,
    "selu": _selu,
    "cast": _cast,
    "gather": _gather,
    "split": _split,
    "unstack": _unstack,
    "copy_n": _copy_n,
    "add_n": _add_n,
    "nearest_upsample": _nearest_upsample,
    "nearest_downsample": _nearest_downsample,
    "area_downsample": _area_downsample,
    "local_response_normalization": _local_response,
}
