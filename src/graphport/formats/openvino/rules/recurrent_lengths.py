"""Recurrent layers of OpenVINO over sequences of several lengths, where the batch or the number of steps is open.

Its CPU plugin takes every sequence for whole there. What is written here says the same without lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.emitting import emitted_range
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.operands import index, vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def over_lengths(
    b: Builder, word: str, operands: tuple[Value, ...], attributes: Mapping[str, Any], whole: Value
) -> tuple[Value, ...]:
    """What the layer `word` makes of sequences, initial states, lengths, weights and a bias.

    The last state of the cell is not that at the end: whoever reads it cannot have it this way.

    Args:
        b: where it is said.
        word: a layer over sequences.
        operands: what it takes, batch first.
        attributes: what it says.
        whole: lengths of sequences that all go to the last step.
    """
    forward = {**attributes, "direction": "forward"}
    match attributes["direction"]:
        case "forward":
            return _forwards(b, word, operands, forward, whole)
        case "reverse":
            return _backwards(b, word, operands, forward, whole)
        case _:
            x, *states, lengths, w, r, bias = operands
            parted = [*(_parted(b, each, 1) for each in states), *(_parted(b, each, 0) for each in (w, r, bias))]
            forth, back = (
                (x, *(each[way] for each in parted[:-3]), lengths, *(each[way] for each in parted[-3:]))
                for way in range(2)
            )
            ends = _forwards(b, word, forth, forward, whole), _backwards(b, word, back, forward, whole)
            return tuple(emit(b, "opset1.Concat", *pair, axis=1) for pair in zip(*ends, strict=True))


def _parted(b: Builder, x: Value, axis: int) -> tuple[Value, ...]:
    """What each of both directions has of a state, of weights or of a bias."""
    return emits(b, "opset1.Split", 2, x, index(b, axis), num_splits=2)


def _backwards(
    b: Builder, word: str, operands: tuple[Value, ...], attributes: Mapping[str, Any], whole: Value
) -> tuple[Value, ...]:
    """What a layer makes of sequences that are turned round, turned round again."""
    x, *others = operands
    lengths = operands[-4]
    y, *states = _forwards(b, word, (_reversed(b, x, lengths, 1), *others), attributes, whole)
    return _reversed(b, y, lengths, 2), *states


def _reversed(b: Builder, x: Value, lengths: Value, axis: int) -> Value:
    return emit(b, "opset1.ReverseSequence", x, lengths, batch_axis=0, seq_axis=axis)


def _forwards(
    b: Builder, word: str, operands: tuple[Value, ...], attributes: Mapping[str, Any], whole: Value
) -> tuple[Value, ...]:
    lengths, initial = operands[-4], operands[1]
    y, _, *cells = emits(b, word, len(operands) - 4, *operands[:-4], whole, *operands[-3:], **attributes)
    end = emit(b, "opset1.Unsqueeze", emit(b, "opset1.Convert", lengths, destination_type=DType.INT64), vector(b, [1]))
    # The state of one end is that behind so many steps; before the first it is what was given.
    states = emit(b, "opset1.Concat", emit(b, "opset1.Unsqueeze", initial, vector(b, [2])), y, axis=2)
    last = emit(b, "opset8.Gather", states, end, index(b, 2), batch_dims=1)
    is_reached = emit(b, "opset1.Unsqueeze", emit(b, "opset1.Less", emitted_range(b, y, 2), end), vector(b, [1, 3]))
    kept = emit(b, "opset1.Select", is_reached, y, b.like(y, 0.0))
    return kept, emit(b, "opset1.Squeeze", last, vector(b, [2])), *cells
