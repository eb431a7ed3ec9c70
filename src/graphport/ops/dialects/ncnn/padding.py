"""Padding of ncnn."""

from __future__ import annotations

from typing import Any

from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.ncnn.binding import Layer, emitted, layer, lengths_of
from graphport.ops.dialects.pnnx.padding import padded
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.padding import PadView

_MODES = ("constant", "replicate", "reflect")


@layer("Padding")
def padding(at: Layer) -> Value:
    """Of width and height, and of the axis in front of them."""
    at.refuse(6)
    kind = at.integer(4)
    if not 0 <= kind < len(_MODES):
        message = f"there is no rule for the padding {kind}"
        raise UnsupportedError(message)
    pairs = [(at.integer(7), at.integer(8)), (at.integer(0), at.integer(1)), (at.integer(2), at.integer(3))]
    used = pairs[-min(at.rank, 3) :]
    if any(pair != (0, 0) for pair in pairs[: 3 - len(used)]):
        message = "padding of axes that are not there"
        raise UnsupportedError(message)
    return padded(at.b, at.x, used, _MODES[kind], at.real(5))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@PadView.lift("ncnn")
def lift_pad(b: Builder, op: PadView) -> Value | None:
    kinds = {"constant": 0, "edge": 1, "reflect": 2}
    rank = len(lengths_of(b, op.data)) + 1
    numbers = constant_numbers(op.pads)
    places = tuple(range(rank)) if op.axes is None else constant_numbers(op.axes)
    filler = (0,) if op.constant_value is None else constant_numbers(op.constant_value)
    if numbers is None or places is None or filler is None or op.mode not in kinds:
        return None
    pairs = [(0, 0)] * rank
    for index, place in enumerate(places):
        pairs[int(place) % rank] = (int(numbers[index]), int(numbers[index + len(places)]))
    inner = pairs[1:][-3:]
    outer = pairs[: rank - len(inner)]
    if any(pair != (0, 0) for pair in outer) or any(n < 0 for pair in inner for n in pair):
        return None
    front, height, width = [(0, 0)] * (3 - len(inner)) + inner
    keyed: dict[str, Any] = {
        "p0": height[0],
        "p1": height[1],
        "p2": width[0],
        "p3": width[1],
        "p7": front[0],
        "p8": front[1],
    }
    return emitted(b, "Padding", op.data, **keyed, p4=kinds[op.mode], p5=float(filler[0]))
