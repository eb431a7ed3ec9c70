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
    message = f"the goal of {goal:g} dB is not sure: {snr:.2f} dB here may be {snr - margin:.2f} dB on other samples"
    remedy = "ask for less, or give more samples: the more are held back, the nearer is what is told of others"
    return Diagnostic("QUANT0022", message, None, remedy, Severity.WARNING)


def slower(point: FrontPoint, front: Sequence[FrontPoint], target: str) -> list[Diagnostic]:
    """Return a warning if the selected plan was measured to be slower than the source."""
    if point.latency is None or point.latency < _SLOWER:
        return []
    is_fastest = all(point.latency <= (each.latency or 0.0) for each in front)
    remedy = "ask for time (--max-latency 1x), or take a faster point (--point)"
    if is_fastest:
        remedy = "no point of the front is faster: integers gain bytes here, and no time"
    return [_slower(target, f"{point.latency:.2f} of its time", remedy)]


def slower_run(
    settings: Settings, layers: tuple[int, int], graph: Graph, times: Mapping[str, float]
) -> list[Diagnostic]:
    """Return the same for a timed run of `graph` with `layers` integer layers."""
    if times["speed_up"] > 1 - _WITHIN_SPREAD:
        return []
    roundings = sum(node.op in ("QuantizeLinear", "DequantizeLinear") for node in graph)
    how = (
        f"{times['target_ms']} ms a run of one sample beside {times['source_ms']} ms; {layers[0]} of {layers[1]} "
        f"layers are on integers, with {roundings} roundings around them"
    )
    choices = {
        "--preset fast": settings.preset != "fast",
        "--no-real-results": settings.real_results is not False,
        "--no-cheap-layers": settings.cheap_layers is not False,
        "graphport latency to see which layers gain nothing, and --float for those": True,
    }
    remedy = f"try {', or '.join(choice for choice, is_open in choices.items() if is_open)}"
    return [_slower(settings.target, how, remedy)]


def _slower(target: str, how: str, remedy: str) -> Diagnostic:
    message = f"the result is slower than the source on {target} here: {how}"
    return Diagnostic("QUANT0023", message, None, remedy, Severity.WARNING)


def _nothing(quantization: Quantization) -> list[Diagnostic]:
    if quantization.weights or quantization.tables or quantization.halves:
        return []
    message = "no layer is quantized"
    reasons = list(dict.fromkeys(quantization.placement.floating.values()))
    remedy = f"layers stay floating because: {'; '.join(reasons[:3])}" if reasons else None
    return [Diagnostic("QUANT0021", message, None, remedy, Severity.WARNING)]


def _missed(settings: Settings, noise: Noise) -> list[Diagnostic]:
    goal = settings.min_snr
    if goal is None or noise.snr - noise.margin >= goal:
        return []
    if noise.snr >= goal:
        return [unsure(goal, noise.snr, noise.margin)]
    limit = settings.max_float_layers
    within = "with any layer on integers" if limit is None else f"with {limit} floating layers"
    message = f"the goal of {goal:g} dB is not reached: the best {within} is {noise.snr:.2f} dB"
    remedy = "ask for less, let more layers float (--max-float-layers), or take 16 bits (--bits 16)"
    return [Diagnostic("QUANT0022", message, None, remedy, Severity.WARNING)]


def _ruined(settings: Settings, noise: Noise, noisiest: Collection[str]) -> list[Diagnostic]:
    if noise.snr >= UNUSABLE_SNR_DB:
        return []
    agreement = "" if noise.agreement is None else f", the same first choice in {100 * noise.agreement:.1f} %"
    message = f"the outputs are mostly noise: {noise.snr:.2f} dB{agreement}"
    ways = ["--preset balanced"] if settings.preset == "fast" else []
    ways += [f"--float {' --float '.join(noisiest)}"] if noisiest else []
    ways += ["--bits 16"] if settings.activation_bits < 16 and not settings.weights_only else []
    ways += ["--weight-bits 8"] if settings.weight_bits < 8 else []
    return [Diagnostic("QUANT0020", message, None, f"try {', or '.join(ways)}" if ways else None, Severity.WARNING)]
