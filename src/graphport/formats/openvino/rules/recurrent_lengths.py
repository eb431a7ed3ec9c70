"""Recurrent layers of OpenVINO with sequence lengths, where batch or sequence dims are dynamic.

Its CPU plugin ignores the lengths in this case. These rules compute the same results without them.
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
    b: Builder, op_type: str, operands: tuple[Value, ...], attributes: Mapping[str, Any], whole: Value
) -> tuple[Value, ...]:
    """Emit a layer over sequences with initial states, lengths, weights and a bias.

    The last cell state is that after all steps, so it must not be used.

    Args:
        b: the builder.
        word: op type of a layer over sequences.
        operands: its operands, batch first.
        attributes: its attributes.
        whole: the full length of each sequence.
    """
    forward = {**attributes, "direction": "forward"}
    match attributes["direction"]:
        case "forward":
            return _forwards(b, op_type, operands, forward, whole)
        case "reverse":
            return _backwards(b, op_type, operands, forward, whole)
        case _:
            x, *states, lengths, w, r, bias = operands
            parted = [*(_parted(b, each, 1) for each in states), *(_parted(b, each, 0) for each in (w, r, bias))]
            forth, back = (
                (x, *(each[way] for each in parted[:-3]), lengths, *(each[way] for each in parted[-3:]))
                for way in range(2)
            )
            ends = _forwards(b, op_type, forth, forward, whole), _backwards(b, op_type, back, forward, whole)
            return tuple(emit(b, "opset1.Concat", *pair, axis=1) for pair in zip(*ends, strict=True))


def _parted(b: Builder, x: Value, axis: int) -> tuple[Value, ...]:
    """Split a state, weights or bias by direction."""
    return emits(b, "opset1.Split", 2, x, index(b, axis), num_splits=2)


def _backwards(
    b: Builder, op_type: str, operands: tuple[Value, ...], attributes: Mapping[str, Any], whole: Value
) -> tuple[Value, ...]:
    """Reverse the sequences, run the forward layer, and reverse its results."""
    x, *others = operands
    lengths = operands[-4]
    y, *states = _forwards(b, op_type, (_reversed(b, x, lengths, 1), *others), attributes, whole)
    return _reversed(b, y, lengths, 2), *states


def _reversed(b: Builder, x: Value, lengths: Value, axis: int) -> Value:
    return emit(b, "opset1.ReverseSequence", x, lengths, batch_axis=0, seq_axis=axis)


def _forwards(
    b: Builder, op_type: str, operands: tuple[Value, ...], attributes: Mapping[str, Any], whole: Value
) -> tuple[Value, ...]:
    lengths, initial = operands[-4], operands[1]
    y, _, *cells = emits(b, op_type, len(operands) - 4, *operands[:-4], whole, *operands[-3:], **attributes)
    end = emit(b, "opset1.Unsqueeze", emit(b, "opset1.Convert", lengths, destination_type=DType.INT64), vector(b, [1]))
    # The final state is the state after `length` steps; for length 0, the initial state.
    states = emit(b, "opset1.Concat", emit(b, "opset1.Unsqueeze", initial, vector(b, [2])), y, axis=2)
    last = emit(b, "opset8.Gather", states, end, index(b, 2), batch_dims=1)
    is_reached = emit(b, "opset1.Unsqueeze", emit(b, "opset1.Less", emitted_range(b, y, 2), end), vector(b, [1, 3]))
    kept = emit(b, "opset1.Select", is_reached, y, b.like(y, 0.0))
    return kept, emit(b, "opset1.Squeeze", last, vector(b, [2])), *cells
