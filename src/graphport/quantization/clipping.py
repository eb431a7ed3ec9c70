"""Ranges that cut off so much that what is cut off makes more noise than rounding would."""

from __future__ import annotations

from math import inf, log10
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.quantization.calibrate import squared_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Value
    from graphport.quantization.observe import Statistics
    from graphport.quantization.parameters import QuantizationParameters

_TIMES = 4.0
"""How many times the noise of the whole range is told: 6 dB."""


def clipping(
    method: str,
    all_qparams: Mapping[Value, QuantizationParameters],
    states: Mapping[Value, Statistics],
    whole: Callable[[Statistics], QuantizationParameters],
) -> list[Diagnostic]:
    """A warning if `method` makes values noisier than the grids of their `whole` ranges, which cut nothing off."""
    losses: dict[str, float] = {}
    for value, qparams in all_qparams.items():
        state = states.get(value)
        if state is None or not state.elements:
            continue
        own, other = squared_error(state.histogram, qparams), squared_error(state.histogram, whole(state))
        if own > _TIMES * other > 0:
            losses[value.name] = 10 * log10(own / other)
    if not losses:
        return []
    worst = max(losses, key=losses.__getitem__)
    message = (
        f"the method {method} cuts so much off {len(losses)} of {len(all_qparams)} values that they are noisier than "
        f"with their whole ranges, by up to {losses[worst]:.1f} dB ({worst!r})"
    )
    return [Diagnostic("QUANT0019", message, None, "leave the method to 'auto' (--method auto)", Severity.WARNING)]


def ends_of_clip(value: Value) -> tuple[float, float]:
    """The ends of what a clipping gives: kernels swallow it only where the grid does not reach beyond."""
    node = value.producer
    if node is None or node.op != "Clip":
        return -inf, inf
    ends = [
        None if x is None or x.storage is None else float(x.storage.numpy()) for x in (node.operand(1), node.operand(2))
    ]
    return -inf if ends[0] is None else ends[0], inf if ends[1] is None else ends[1]
