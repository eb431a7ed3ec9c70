"""Settings of a quantization; their JSON form is equal in all versions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import Any, Literal, cast, get_args

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.quantization.calibrate import METHODS, PERCENTILE
from graphport.quantization.calibrate import Method as Calibration
from graphport.quantization.dispatch import Method

Preset = Literal["fast", "balanced", "best"]
"""Effort: ranges only; closed forms; searches."""
PRESETS: tuple[Preset, ...] = get_args(Preset)

Processor = Literal["any", "dot-products", "this"]
"""All processors of the target; those that add int8 products in 32 bits; this one."""

WeightRange = Literal["auto", "full", "pairs", "reduced"]
"""All codes of the weight's type; no overflow of two neighbours in 16 bits; half of the codes."""

Form = Literal["qdq", "qoperator"]
"""Form of integer computations: QDQ around float nodes, or integer operators."""

VERSION = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings that determine the result, besides model and data; `None` is the default of target and preset.

    Attributes:
        target: the runtime that runs the result.
        preset: the effort.
        dispatch: which nodes are candidates.
        method: how ranges of activations are chosen.
        percentile: for the method of that name, in percent.
        activation_bits: 8 or 16.
        weight_bits: 8 or 4, and 2 for weight-only blocks.
        weight_block: elements along the summed axis that share a scale; 0 for one scale per channel; unset: 32 for
            weights alone of less than 8 bits, if the target has blocks, else 0.
        activation_type: an element type by name, such as `float8_e4m3fn`.
        weight_type: likewise for weights.
        per_channel: whether each channel of a weight has a scale.
        symmetric: whether activations have zero point 0.
        power_of_two: whether scales are powers of two.
        weight_range: which codes of weights are used.
        processor: the processors that the result must be correct on; it decides `weight_range` if that is `auto`.
        weights_only: activations stay float.
        tables: with weight-only blocks, lookup tables (embeddings) get 8-bit codes, too; if unset, as goals require.
        dynamic: activations of products are quantized at run time, weights before; nothing else is quantized.
        full_integer: no float computation, and integer inputs and outputs; unsupported nodes are reported by name.
        form: `qdq` writes quantize/dequantize pairs around nodes, `qoperator` integer operators, in ONNX files.
        equalize: balance channels across layers.
        smooth: move ranges from activations into weights.
        round: round weights by the second moments of their layer's input.
        correct: correct means in biases.
        search: choose ranges by the noise at the value's consumers.
        refine: beam search for the codes of quantized weights.
        real_results: convolution results with only float consumers are not rounded, and the consumers stay float.
        cheap_layers: layers that cost little time as float stay float if that lowers the noise.
        float_nodes: names of nodes (or of their results) that stay float.
        quantize_nodes: names of nodes that are quantized independent of the dispatch.
        wide_nodes: names of layers (or of their results) that read 16-bit activations.
        min_snr: goal in dB at the outputs; the most sensitive layers stay float until it is met.
        max_float_layers: maximum number of such layers.
        max_latency: goal relative to the source's time (0.5, or "0.5x"), or absolute ("3ms"); processor time on one
            thread.
        latency_table: a file with times of layers, created by `graphport latency` on the machine that runs the model.
        max_bytes: goal for the file size; if needed, weights are also stored as float16 and with fewer bits.
        min_metric: goal for the user's metric.
        point: number of the point on the front that is selected regardless of the goals, from 1.
        front: compute the front of plans even without such goals.
        prepare: rewrite the graph for quantization first.
        batch: maximum number of samples per run.
        memory: bytes of activations that are held at once while layers are adjusted.
        threads: of the backend; 0 for its default.
    """

    target: str = "onnxruntime"
    preset: Preset = "balanced"
    dispatch: str | None = None
    method: Calibration | None = None
    percentile: float = PERCENTILE
    activation_bits: int = 8
    weight_bits: int = 8
    weight_block: int | None = None
    activation_type: str | None = None
    weight_type: str | None = None
    per_channel: bool | None = None
    symmetric: bool | None = None
    power_of_two: bool | None = None
    weight_range: WeightRange = "auto"
    processor: Processor = "any"
    weights_only: bool = False
    tables: bool | None = None
    dynamic: bool = False
    full_integer: bool = False
    form: Form = "qdq"
    equalize: bool | None = None
    smooth: bool | None = None
    round: bool | None = None
    correct: bool | None = None
    search: bool | None = None
    refine: bool | None = None
    real_results: bool | None = None
    cheap_layers: bool | None = None
    float_nodes: tuple[str, ...] = ()
    quantize_nodes: tuple[str, ...] = ()
    wide_nodes: tuple[str, ...] = ()
    min_snr: float | None = None
    max_float_layers: int | None = None
    max_latency: float | str | None = None
    latency_table: str | None = None
    max_bytes: int | None = None
    min_metric: float | None = None
    point: int | None = None
    front: bool = False
    prepare: bool = True
    batch: int = 16
    memory: int = 96 << 20
    threads: int = 0

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        found = asdict(self)
        return {"version": VERSION} | {name: _json_value(x) for name, x in found.items()}

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> Settings:
        """Read settings that `as_json` wrote; absent fields have their default.

        Raises:
            DiagnosticError: QUANT0004 for each unknown field or invalid value.
        """
        given = _parsed(text)
        version = given.pop("version", VERSION)
        known = {field.name for field in fields(cls)}
        findings = [
            _wrong(name, "is unknown", f"settings: {', '.join(sorted(known))}") for name in given if name not in known
        ]
        if version != VERSION:
            findings.append(_wrong("version", f"is {version!r}", f"this is version {VERSION}"))
        if findings:
            raise DiagnosticError(*findings)
        return cls().updated(**given)

    def updated(self, **values: Any) -> Settings:
        """Return these settings with other values.

        Raises:
            DiagnosticError: QUANT0004 for each invalid value.
        """
        known = {field.name for field in fields(self)}
        unknown = [
            _wrong(name, "is unknown", f"settings: {', '.join(sorted(known))}") for name in values if name not in known
        ]
        if unknown:
            raise DiagnosticError(*unknown)
        found = replace(self, **{name: _frozen(x) for name, x in values.items()})
        findings = [_wrong(name, f"is {getattr(found, name)!r}", remedy) for name, remedy in _broken(found)]
        if not findings:
            findings = _contradictions(found)
        if findings:
            raise DiagnosticError(*findings)
        return found


_NAMES = ("float_nodes", "quantize_nodes", "wide_nodes")
_TEXTS = {
    "activation_type": "the name of an element type, such as int8",
    "weight_type": "the name of an element type, such as int8",
    "latency_table": "the path of a file that graphport latency wrote",
}


def _contradictions(settings: Settings) -> list[Diagnostic]:
    both = [name for name in dict.fromkeys(settings.float_nodes) if name in settings.quantize_nodes]
    if not both:
        return []
    message = f"nodes are listed both as float and as quantized: {', '.join(both)}"
    return [Diagnostic("QUANT0004", message, None, "remove them from 'float_nodes' or 'quantize_nodes'")]


def _json_value(x: object) -> object:
    return [*cast("tuple[object, ...]", x)] if isinstance(x, tuple) else x


def _frozen(x: object) -> object:
    return (*cast("list[object]", x),) if isinstance(x, list) else x


def _parsed(text: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(text, dict):
        return dict(text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DiagnosticError(Diagnostic("QUANT0004", f"the settings are not valid JSON: {error}")) from error
    if not isinstance(found, dict):
        raise DiagnosticError(Diagnostic("QUANT0004", "the settings are not a JSON object", None, '{"preset": "best"}'))
    return {str(name): value for name, value in found.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _wrong(name: str, stated: str, remedy: str) -> Diagnostic:
    return Diagnostic("QUANT0004", f"the setting {name!r} {stated}", None, remedy)


def _broken(settings: Settings) -> list[tuple[str, str]]:
    optional = (
        *("per_channel", "symmetric", "power_of_two", "equalize", "smooth", "round", "correct", "search"),
        *("refine", "real_results", "cheap_layers", "tables"),
    )
    whole, types = ("batch", "memory"), ("activation_type", "weight_type", "latency_table")
    rules = [
        ("target", _is_name(settings.target), "the name of a runtime, such as onnxruntime"),
        ("dispatch", settings.dispatch in (None, *map(str, Method)), ", ".join(Method)),
        ("preset", settings.preset in PRESETS, ", ".join(PRESETS)),
        ("method", settings.method in (None, *METHODS), ", ".join(METHODS)),
        ("percentile", _is_finite(settings.percentile) and 50 < settings.percentile <= 100, "above 50, up to 100"),
        ("activation_bits", _is_choice(settings.activation_bits, (8, 16)), "8 or 16"),
        ("weight_bits", _is_choice(settings.weight_bits, (2, 4, 8)), "2, 4 or 8"),
        (
            "weight_block",
            settings.weight_block is None or _is_count(settings.weight_block, 0),
            "0, or the number of weights that share a scale",
        ),
        ("weight_range", settings.weight_range in get_args(WeightRange), ", ".join(get_args(WeightRange))),
        ("form", settings.form in get_args(Form), ", ".join(get_args(Form))),
        ("processor", settings.processor in get_args(Processor), ", ".join(get_args(Processor))),
        ("min_snr", settings.min_snr is None or _is_finite(settings.min_snr), "a number in dB"),
        ("max_float_layers", settings.max_float_layers is None or _is_count(settings.max_float_layers, 0), "0 or more"),
        ("max_latency", settings.max_latency is None or _is_latency(settings.max_latency), "0.5x, or 3ms"),
        ("max_bytes", settings.max_bytes is None or _is_count(settings.max_bytes, 1), "1 or more"),
        ("min_metric", settings.min_metric is None or _is_finite(settings.min_metric), "a number"),
        ("point", settings.point is None or _is_count(settings.point, 1), "1 or more"),
        ("threads", _is_count(settings.threads, 0), "0 or more"),
        *((name, _is_count(getattr(settings, name), 1), "1 or more") for name in whole),
        *((name, _is_flag(getattr(settings, name)), "true, false or null") for name in optional),
        *((name, _is_type(getattr(settings, name)), _TEXTS[name]) for name in types),
        *(
            (name, isinstance(getattr(settings, name), bool), "true or false")
            for name in ("prepare", "weights_only", "dynamic", "full_integer", "front")
        ),
        *((name, _are_names(getattr(settings, name)), "a list of names") for name in _NAMES),
    ]
    return [(name, remedy) for name, is_right, remedy in rules if not is_right]


def _is_finite(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and (isinstance(x, int) or isfinite(x))


def _is_latency(x: object) -> bool:
    return _is_finite(x) or isinstance(x, str)


def _is_choice(x: object, choices: tuple[int, ...]) -> bool:
    return isinstance(x, int) and x in choices


def _is_flag(x: object) -> bool:
    return x is None or isinstance(x, bool)


def _is_type(x: object) -> bool:
    return x is None or isinstance(x, str)


def _is_name(x: object) -> bool:
    return isinstance(x, str)


def _is_count(x: object, least: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


def _are_names(x: object) -> bool:
    return isinstance(x, tuple) and all(isinstance(name, str) for name in x)  # pyright: ignore[reportUnknownVariableType]
