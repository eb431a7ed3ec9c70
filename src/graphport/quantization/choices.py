"""Settings, with defaults of target and preset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.quantization import processor
from graphport.quantization.targets import target as find_target

if TYPE_CHECKING:
    from graphport.quantization.calibrate import Method as Calibration
    from graphport.quantization.settings import Settings
    from graphport.runtimes.target import Target

_NO_BLOCK = "remove the setting 'weight_block' (--block)"
DEFAULT_BLOCK = 32
"""Weights of few bits that share a scale by default: one scale per channel loses 3 dB and more."""
_SUMMED = 0.1
"""Fraction of products whose sums may stay unrounded: in small layers, such kernels are slower than float kernels."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings, with defaults of target and preset."""

    settings: Settings
    target: Target
    activation: DType
    weight: DType
    is_symmetric: bool
    power_of_two: bool
    calibration: Calibration
    reach: str
    equalizes: bool
    rounds: bool
    corrects: bool
    searches: bool
    refines: bool
    summed: float
    is_quick: bool = False
    """Whether one scale is tried per block, instead of the best of many."""

    @classmethod
    def of(cls, settings: Settings) -> Choices:
        """Decide everything that does not depend on the graph."""
        target = find_target(settings.target)
        settings = replace(settings, weight_block=_block(settings, target))
        eager = settings.preset != "fast"
        activation = _dtype(settings.activation_type, target.activation, settings.activation_bits, "activation_type")
        is_half = settings.weight_type == "float16"
        if is_half:
            _refuse_halves(settings, target)
        weight = (
            target.weight
            if is_half
            else _dtype(settings.weight_type, target.weight, settings.weight_bits, "weight_type")
        )
        _refuse_unfit(settings, target, activation, weight)
        reach = settings.weight_range
        if reach == "auto":
            reach = "pairs" if target.pairs and processor.may_saturate(settings.processor) else "full"
        # Block-wise weights are multiplied as floats: integer sums cannot overflow.
        if weight is not DType.INT8 or settings.weight_block:
            has_zeros = bool(settings.weight_block) and target.has_zeros and settings.symmetric is not True
            reach = "zeros" if has_zeros else "full"
        return cls(
            settings,
            target,
            activation,
            weight,
            _is_symmetric(settings, target, activation),
            target.power_of_two if settings.power_of_two is None else settings.power_of_two,
            settings.method or "auto",
            reach,
            eager
            if settings.equalize is None and settings.smooth is None
            else bool(settings.equalize or settings.smooth),
            eager if settings.round is None else settings.round,
            eager if settings.correct is None else settings.correct,
            settings.preset == "best" if settings.search is None else settings.search,
            settings.preset == "best" if settings.refine is None else settings.refine,
            _summed(settings) if (activation, weight) == (DType.UINT8, DType.INT8) else 0.0,
        )


def _block(settings: Settings, target: Target) -> int:
    """Return the number of weights that share a scale; 0 for a scale per channel."""
    is_narrow = settings.weights_only and settings.weight_type is None and settings.weight_bits < DType.INT8.bits
    if settings.weight_block is None and is_narrow and target.has_blocks:
        return target.block or DEFAULT_BLOCK
    return settings.weight_block or target.block


def _refuse_halves(settings: Settings, target: Target) -> None:
    stated: list[tuple[str, str]] = []
    if not target.halves and DType.FLOAT16 not in target.stored:
        stated.append((f"{target.name} does not support float16 weights", "use graphport cast --to float16"))
    elif not settings.weights_only or settings.dynamic or settings.weight_block:
        stated.append(
            ("float16 weights require float activations and no blocks", "set weights_only, and remove weight_block")
        )
    if stated:
        raise DiagnosticError(*(Diagnostic("QUANT0004", message, None, remedy) for message, remedy in stated))


def _refuse_unfit(settings: Settings, target: Target, activation: DType, weight: DType) -> None:
    """Report all settings that the target does not support."""
    sides = [("weights", weight, target.weights)]
    if not settings.weights_only:
        sides.append(("activations", activation, target.activations))
    stated = [
        (f"{target.name} does not support {name} of type {dtype}", f"choose {', '.join(sorted(map(str, known)))}")
        for name, dtype, known in sides
        if known and dtype not in known
    ]
    if settings.dynamic and not target.is_dynamic:
        stated.append((f"{target.name} does not support dynamic quantization", "remove 'dynamic'"))
    elif settings.dynamic and (weight is not DType.INT8 or settings.weight_block):
        stated.append(
            ("dynamic quantization requires int8 weights without blocks", "remove weight_bits and weight_block")
        )
    if settings.full_integer and not target.has_whole:
        message = f"target {target.name} does not support full-integer models"
        stated.append((message, "remove the setting 'full_integer', or choose the target tflite"))
    if settings.full_integer and settings.weights_only:
        stated.append(("'full_integer' excludes float activations", "remove 'full_integer' or the other setting"))
    if weight.bits < 4 and (not settings.weights_only or not settings.weight_block or weight not in target.stored):
        stated.append(
            (
                f"{target.name} supports {weight} only for block-wise weight-only quantization",
                _remedy_of(weight, target),
            )
        )
    if settings.tables and (target.table is None or not settings.weights_only or not settings.weight_block):
        stated.append(
            ("'tables' requires block-wise weight-only quantization for onnxruntime or tract", "remove 'tables'")
        )
    if target.only_weights and not settings.weights_only:
        stated.append(
            (f"{target.name} supports only weight-only quantization here", "add weights_only (--weights-only)")
        )
    if target.block and settings.weight_block not in (0, target.block):
        stated.append(
            (f"{target.name} supports blocks of {target.block} weights, not {settings.weight_block}", _NO_BLOCK)
        )
    if settings.form == "qoperator" and target.name != "onnxruntime":
        stated.append((f"{target.name} does not support the setting 'form'", "remove the setting 'form'"))
    if settings.weight_block and not target.has_blocks:
        stated.append((f"{target.name} does not support block-wise scales", "remove the setting 'weight_block'"))
    elif settings.weight_block and _is_byte(activation) and not settings.weights_only and _misread(target, weight):
        message = f"{target.name} does not support block-wise {weight} weights with {activation} activations"
        remedy = "use 4-bit weights, 16-bit activations or float activations (weights_only)"
        stated.append((message, remedy))
    if stated:
        raise DiagnosticError(*(Diagnostic("QUANT0004", message, None, remedy) for message, remedy in stated))


def _is_symmetric(settings: Settings, target: Target, activation: DType) -> bool:
    is_wanted = target.symmetric if settings.symmetric is None else settings.symmetric
    return is_wanted or activation in target.centred


def _remedy_of(weight: DType, target: Target) -> str:
    return "add weights_only and weight_block" if weight in target.stored else "use 4-bit or 8-bit weights"


def _misread(target: Target, weight: DType) -> bool:
    return bool(target.block_weights) and weight not in target.block_weights


def _is_byte(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits <= 8


def _summed(settings: Settings) -> float:
    return _SUMMED if settings.real_results is None else float(settings.real_results)


def _dtype(name: str | None, default: DType, bits: int, setting: str) -> DType:
    if name is None:
        return default if default.bits == bits else DType.of(f"{'u' if default.kind == 'u' else ''}int{bits}")
    try:
        found = DType.of(name)
    except ValueError:
        found = None
    if found is None or not (found.is_integer or found in (DType.FLOAT8E4M3FN, DType.FLOAT8E5M2)) or found.bits > 16:
        message = f"unsupported element type {name!r} of the setting {setting!r}"
        raise DiagnosticError(Diagnostic("QUANT0004", message, None, "uint8, int8, uint16, int4, float8_e4m3fn, …"))
    return found
