"""Diagnostics of a result before its use: a missed goal, excessive noise, no integer layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.quantization.engine import Noise
    from graphport.quantization.goals import FrontPoint
    from graphport.quantization.insert_qdq import Quantization
    from graphport.quantization.settings import Settings

UNUSABLE_SNR_DB = 10.0
"""SNR in dB below which the outputs are unusable: a third of their magnitude is noise."""
_SLOWER = 1.05
"""Time relative to the source from which a result counts as slower."""
_WITHIN_SPREAD = 0.03
"""Relative difference of two medians on a busy machine."""


def check_result(
    settings: Settings, quantization: Quantization, noise: Noise, noisiest: Collection[str]
) -> list[Diagnostic]:
    """Return diagnostics of a result; `noisiest` are the layers with most of its noise."""
    return [*_nothing(quantization), *_missed(settings, noise), *_ruined(settings, noise, noisiest)]


def unsure(goal: float, snr: float, margin: float) -> Diagnostic:
    """Return a warning that the goal is met on held-out samples, but may be missed on others."""
    message = (
        f"the goal of {goal:g} dB is uncertain: {snr:.2f} dB measured, possibly {snr - margin:.2f} dB on other samples"
    )
    remedy = "lower the goal, or pass more samples: the estimate improves with the number of held-out samples"
    return Diagnostic("QUANT0022", message, None, remedy, Severity.WARNING)


def slower(point: FrontPoint, front: Sequence[FrontPoint], target: str) -> list[Diagnostic]:
    """Return a warning if the selected plan was measured to be slower than the source."""
    if point.latency is None or point.latency < _SLOWER:
        return []
    is_fastest = all(point.latency <= (each.latency or 0.0) for each in front)
    remedy = "set a latency goal (--max-latency 1x), or choose a faster point (--point)"
    if is_fastest:
        remedy = "keep the float model if time matters: no point of the Pareto front is faster"
    return [_slower(target, f"{point.latency:.2f} times the latency", remedy)]


def slower_run(
    settings: Settings, layers: tuple[int, int], graph: Graph, times: Mapping[str, float]
) -> list[Diagnostic]:
    """Return a warning if a timed run of `graph` with `layers` integer layers is slower than the source."""
    if times["speed_up"] > 1 - _WITHIN_SPREAD:
        return []
    roundings = sum(node.op in ("QuantizeLinear", "DequantizeLinear") for node in graph)
    how = (
        f"{times['target_ms']} ms per sample, {times['source_ms']} ms before; {layers[0]} of {layers[1]} "
        f"layers are on integers, with {roundings} roundings around them"
    )
    choices = {
        "--max-latency 1x": not settings.weights_only,
        "--preset fast": settings.preset != "fast",
        "--no-real-results": settings.real_results is not False,
        "--no-cheap-layers": settings.cheap_layers is not False,
        "find slow layers with graphport latency, and keep them in float (--float)": True,
    }
    remedy = f"try {', or '.join(choice for choice, is_open in choices.items() if is_open)}"
    return [_slower(settings.target, how, remedy)]


def _slower(target: str, how: str, remedy: str) -> Diagnostic:
    message = f"the result is slower than the source on {target} here: {how}"
    return Diagnostic("QUANT0023", message, None, remedy, Severity.WARNING)


def _nothing(quantization: Quantization) -> list[Diagnostic]:
    if quantization.weights or quantization.tables or quantization.halves or quantization.placement.recurrent:
        return []
    message = "no layer is quantized"
    reasons = list(dict.fromkeys(quantization.placement.floating.values()))
    remedy = f"check why layers remain in float: {'; '.join(reasons[:3])}" if reasons else None
    return [Diagnostic("QUANT0021", message, None, remedy, Severity.WARNING)]


def _missed(settings: Settings, noise: Noise) -> list[Diagnostic]:
    goal = settings.min_snr
    if goal is None or noise.snr - noise.margin >= goal:
        return []
    if noise.snr >= goal:
        return [unsure(goal, noise.snr, noise.margin)]
    limit = settings.max_float_layers
    within = "with any quantized layer" if limit is None else f"with {limit} floating layers"
    message = f"the goal of {goal:g} dB is not met: the best SNR {within} is {noise.snr:.2f} dB"
    remedy = "lower the goal, allow more float layers (--max-float-layers), or use 16-bit activations (--bits 16)"
    return [Diagnostic("QUANT0022", message, None, remedy, Severity.WARNING)]


def _ruined(settings: Settings, noise: Noise, noisiest: Collection[str]) -> list[Diagnostic]:
    if noise.snr >= UNUSABLE_SNR_DB:
        return []
    agreement = "" if noise.agreement is None else f", top-1 agreement {100 * noise.agreement:.1f} %"
    message = f"very low SNR of the outputs: {noise.snr:.2f} dB{agreement}"
    ways = ["--preset balanced"] if settings.preset == "fast" else []
    ways += [f"--float {' --float '.join(noisiest)}"] if noisiest else []
    ways += ["--bits 16"] if settings.activation_bits < 16 and not settings.weights_only else []
    ways += ["--weight-bits 8"] if settings.weight_bits < 8 else []
    return [Diagnostic("QUANT0020", message, None, f"try {', or '.join(ways)}" if ways else None, Severity.WARNING)]
