"""Padding of PyTorch: from the last axis on, in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from graphport.core.dims import Dim
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import DIALECT, called, emits, integers, length, scalar_of, static
from graphport.formats.pytorch.rules.functions.computed_lengths import computed_list, elements_of
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.padding import Pad
from graphport.ops.lowering.operands import vector
from graphport.ops.views.padding import PadView

_MODES = MappingProxyType(
    {"constant": "constant", "zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
)


def padded(b: Builder, x: Value, pairs: Sequence[tuple[int, int]], mode: str = "constant", value: Any = None) -> Value:
    """Pad the last axes of `x` by `pairs`, in the order of the axes."""
    if mode not in _MODES:
        message = f"unsupported padding mode {mode}"
        raise UnsupportedError(message)
    rank = len(b.dims(x))
    if len(pairs) > rank:
        message = f"the padding has {len(pairs)} axes, the tensor has rank {rank}"
        raise ShapeError(message)
    if not any(p or q for p, q in pairs):
        return x
    free = [0] * (rank - len(pairs))
    pads = vector(b, [*free, *(p for p, _ in pairs), *free, *(q for _, q in pairs)])
    filler = b.like(x, scalar_of(value)) if mode == "constant" and value else None
    return b(Pad, x, pads, filler, mode=_MODES[mode])


@emits("F.pad", "aten::pad")
def pad(b: Builder, input: Value, pad: Any, mode: str = "constant", value: Any = None) -> Value:
    return _padded_as(b, input, pad, mode, value)


def _padded_as(b: Builder, input: Value, pad: Any, mode: str, value: Any) -> Value:
    if (isinstance(pad, Value) and static(pad) is None) or (
        is_sequence(pad) and any(isinstance(n, Value) for n in pad)
    ):
        return _computed(b, input, lengths(b, pad), mode, value)
    pads = integers(pad)
    if len(pads) % 2:
        message = f"the padding {list(pads)} does not have two elements per axis"
        raise ShapeError(message)
    pairs = list(zip(pads[::2], pads[1::2], strict=True))[::-1]
    return padded(b, input, pairs, mode, value)


def _computed(b: Builder, x: Value, pad: Value, mode: str, value: Any) -> Value:
    """Pad by run-time amounts."""
    rank, count = len(b.dims(x)), length(b.dims(pad), 0)
    if mode not in _MODES or count % 2 or count > 2 * rank:
        message = f"padding by {count} computed sizes in mode {mode} of a tensor of rank {rank}"
        raise UnsupportedError(message)
    order = [*range(0, count, 2)][::-1]
    pads = b(Gather, pad, [*order, *(place + 1 for place in order)])
    filler = b.like(x, scalar_of(value) or 0) if mode == "constant" else None
    return b(Pad, x, pads, filler, list(range(rank - count // 2, rank)), mode=_MODES[mode])


@emits("aten::constant_pad_nd")
def constant_pad(b: Builder, input: Value, pad: Any, value: Any = 0) -> Value:
    return _padded_as(b, input, pad, "constant", value)


def _sides(b: Builder, x: Value, padding: Any, axes: int, mode: str, value: Any) -> Value:
    """Pad the last `axes` axes by PyTorch's list of pairs, last axis first; one number applies to all sides."""
    numbers = integers(padding, 2 * axes)
    return padded(b, x, list(zip(numbers[::2], numbers[1::2], strict=True))[::-1], mode, value)


PNNX.having(padded=_sides).lower("""
nn.ReflectionPad1d, aten::reflection_pad1d(input, padding, value=None) -> padded(input, padding, 1, "reflect", value)
nn.ReflectionPad2d, aten::reflection_pad2d(input, padding, value=None) -> padded(input, padding, 2, "reflect", value)
nn.ReflectionPad3d, aten::reflection_pad3d(input, padding, value=None) -> padded(input, padding, 3, "reflect", value)
nn.ReplicationPad1d, aten::replication_pad1d(input, padding, value=None)
    -> padded(input, padding, 1, "replicate", value)
nn.ReplicationPad2d, aten::replication_pad2d(input, padding, value=None)
    -> padded(input, padding, 2, "replicate", value)
nn.ReplicationPad3d, aten::replication_pad3d(input, padding, value=None)
    -> padded(input, padding, 3, "replicate", value)
nn.CircularPad1d(input, padding, value=None) -> padded(input, padding, 1, "circular", value)
nn.CircularPad2d(input, padding, value=None) -> padded(input, padding, 2, "circular", value)
nn.CircularPad3d(input, padding, value=None) -> padded(input, padding, 3, "circular", value)
nn.ZeroPad1d, nn.ConstantPad1d(input, padding, value=None) -> padded(input, padding, 1, "constant", value)
nn.ZeroPad2d, nn.ConstantPad2d(input, padding, value=None) -> padded(input, padding, 2, "constant", value)
nn.ZeroPad3d, nn.ConstantPad3d(input, padding, value=None) -> padded(input, padding, 3, "constant", value)
""")


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@PadView.export_rule(DIALECT)
def export_pad(b: Builder, op: PadView) -> Value | None:
    rank = len(b.dims(op.data))
    numbers, padded_axes = elements_of(op.pads), static(op.axes) if op.axes is not None else tuple(range(rank))
    stated = next((name for name, own in _MODES.items() if own == op.mode and name != "zeros"), None)
    if numbers is None or padded_axes is None or stated is None:
        return None
    pairs: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for index, place in enumerate(padded_axes):
        pairs[place % rank] = (numbers[index], numbers[index + len(padded_axes)])
    while len(pairs) > 1 and pairs[0] == (0, 0) and (op.mode == "constant" or len(pairs) > rank - 2):
        pairs.pop(0)
    if op.mode != "constant" and not 1 <= len(pairs) <= max(rank - 2, 1):
        return None
    flat = computed_list(b, [n for pair in reversed(pairs) for n in pair], op.data)
    if flat is None:
        return None
    value = 0.0 if op.constant_value is None else scalar_of(op.constant_value)
    return called(b, "F.pad", input=op.data, pad=flat, mode=stated, value_=value if op.mode == "constant" else None)
