"""Report ranges whose clipping error exceeds the rounding error of the whole range."""

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

_NOISE_FACTOR = 4.0
"""Factor over the noise of the whole range that is reported: 6 dB."""


def clipping(
    method: str,
    all_qparams: Mapping[Value, QuantizationParameters],
    states: Mapping[Value, Statistics],
    whole: Callable[[Statistics], QuantizationParameters],
) -> list[Diagnostic]:
    """Return a warning if `method` causes more noise than the `whole` ranges, which do not clip."""
    losses: dict[str, float] = {}
    for value, qparams in all_qparams.items():
        state = states.get(value)
        if state is None or not state.elements:
            continue
        own, other = squared_error(state.histogram, qparams), squared_error(state.histogram, whole(state))
        if own > _NOISE_FACTOR * other > 0:
            losses[value.name] = 10 * log10(own / other)
    if not losses:
        return []
    worst = max(losses, key=losses.__getitem__)
    message = (
        f"the method {method} clips {len(losses)} of {len(all_qparams)} values so much that they are noisier than "
        f"with their whole ranges, by up to {losses[worst]:.1f} dB ({worst!r})"
    )
    return [Diagnostic("QUANT0019", message, None, "use the method 'auto' (--method auto)", Severity.WARNING)]


def ends_of_clip(value: Value) -> tuple[float, float]:
    """Return the range of a clipped result: kernels fuse the clip only if the qparams do not exceed it."""
    node = value.producer
    if node is None or node.op != "Clip":
        return -inf, inf
    ends = [
        None if x is None or x.storage is None else float(x.storage.numpy()) for x in (node.operand(1), node.operand(2))
    ]
    return -inf if ends[0] is None else ends[0], inf if ends[1] is None else ends[1]
