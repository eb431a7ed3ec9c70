"""Report of a quantization and its accuracy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from graphport.core.short_repr import short_repr
from graphport.core.table import Tabular
from graphport.quantization.result_diagnostics import UNUSABLE_SNR_DB

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.quantization.goals import FrontPoint
    from graphport.quantization.settings import Settings

WORST = 10
"""Number of layers that are listed first."""


@short_repr
@dataclass(frozen=True, slots=True)
class LayerReport:
    """A layer with weights.

    `own_db` is the SNR of its result with float inputs, `accumulated_db` with quantized inputs; `means` is the rounding
    method of its weight; `reasons` explain its noise, or why it is float.
    """

    name: str
    operator: str
    is_quantized: bool
    own_db: float | None = None
    accumulated_db: float | None = None
    means: str = ""
    reasons: tuple[str, ...] = ()
    input_range: tuple[float, float] | None = None
    input_seen: tuple[float, float] | None = None
    weight_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "name": self.name,
            "operator": self.operator,
            "quantized": self.is_quantized,
            "own_db": _rounded(self.own_db),
            "accumulated_db": _rounded(self.accumulated_db),
            "means": self.means,
            "reasons": list(self.reasons),
            "input_range": None if self.input_range is None else list(self.input_range),
            "input_seen": None if self.input_seen is None else list(self.input_seen),
            "weight_bytes": self.weight_bytes,
        }


@short_repr
@dataclass(frozen=True, slots=True)
class Step:
    """A tried step, its result on held-out samples, and whether it was accepted."""

    name: str
    snr_db: float
    is_kept: bool

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {"name": self.name, "snr_db": _rounded(self.snr_db), "kept": self.is_kept}


@short_repr
@dataclass(frozen=True, slots=True)
class QuantizationReport(Tabular):
    """Report of one quantization.

    `snr_db` and `agreement` are of the outputs on held-out samples; `snr_range` and `agreement_range` are 95 %
    confidence intervals for other samples. `goal_met` is `None` without a goal.
    """

    settings: Settings
    samples: int
    held_back: int
    snr_db: float
    agreement: float | None
    layers: tuple[LayerReport, ...]
    steps: tuple[Step, ...]
    findings: tuple[Diagnostic, ...] = ()
    goal_met: bool | None = None
    processor: dict[str, object] = field(default_factory=dict[str, object])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    snr_range: tuple[float, float] | None = None
    agreement_range: tuple[float, float] | None = None
    front: tuple[FrontPoint, ...] = ()
    """The Pareto front, most accurate last; one plan if only one was built."""
    chosen: FrontPoint | None = None
    """Index of the selected plan."""
    accuracy_level: int | None = None
    """Accuracy level of ONNX Runtime's few-bit products, if the file sets it: 1 does not quantize activations."""
    exact_layers: tuple[str, ...] = ()
    """Results of such products for which the file sets that level; others have 4."""
    snr_as_run_db: float | None = None
    """SNR with the runtime's default settings.

    ONNX Runtime quantizes activations of few-bit products; `None` without such products. OpenVINO does so as well, and
    computes in bfloat16 if this processor supports it; `None` if it is not installed.
    """
    measured: tuple[float, float] | None = None
    """The user's metric of source and result, if no plans were built."""

    worst_part: str | None = None
    """Part of the outputs with the SNR `snr_db`, if there are several: `scores = output0[:, 4:84]`."""
    iterations: int = 0
    """Number of successive iterations that the SNR is measured over, if states are fed back."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each layer with weights."""
        return [layer.as_json() for layer in self.layers]

    @property
    def caption(self) -> str:
        """Summarize the accuracy of the outputs and the number of samples."""
        held = self.held_back or self.samples
        met = "" if self.goal_met is None else f", goal {'met' if self.goal_met else 'not met'}"
        return f"{self.snr_db:.2f} dB on {held} samples{met}" if held else f"{self.snr_db:.2f} dB on random inputs{met}"

    @property
    def worst(self) -> list[LayerReport]:
        """The noisiest layers, worst first."""
        return worst_of(self.layers)

    @property
    def floating(self) -> list[LayerReport]:
        """The float layers."""
        return [layer for layer in self.layers if not layer.is_quantized]

    @property
    def passed(self) -> bool:
        """Whether the goal was met; without one, whether the outputs are more than noise."""
        return self.snr_db >= UNUSABLE_SNR_DB if self.goal_met is None else self.goal_met

    def explain(self, name: str) -> LayerReport | None:
        """Return the report of the layer with that name."""
        return next((layer for layer in self.layers if layer.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "settings": self.settings.as_json(),
            "samples": self.samples,
            "held_back": self.held_back,
            "snr_db": _rounded(self.snr_db),
            "snr_range_db": _range(self.snr_range),
            "worst_part": self.worst_part,
            "iterations": self.iterations,
            "snr_as_run_db": _rounded(self.snr_as_run_db),
            "agreement": self.agreement,
            "agreement_range": _range(self.agreement_range),
            "goal_met": self.goal_met,
            "accuracy_level": self.accuracy_level,
            "exact_layers": [*self.exact_layers],
            "metric": None if self.measured is None else dict(zip(("source", "target"), self.measured, strict=True)),
            "front": [point.as_json() for point in self.front],
            "chosen": None if self.chosen is None else self.chosen.as_json(),
            "layers": [layer.as_json() for layer in self.layers],
            "worst": [layer.name for layer in self.worst],
            "floating": [layer.name for layer in self.floating],
            "steps": [step.as_json() for step in self.steps],
            "processor": self.processor,
            "seconds": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
        }


def joined(reports: Sequence[QuantizationReport]) -> QuantizationReport:
    """Return the report on all branches of a model, with the lowest accuracy."""
    worst = min(reports, key=lambda report: report.snr_db)
    return replace(
        worst,
        layers=tuple(layer for report in reports for layer in report.layers),
        findings=tuple(dict.fromkeys(finding for report in reports for finding in report.findings)),
        exact_layers=(),
    )


def worst_of(layers: Iterable[LayerReport]) -> list[LayerReport]:
    """Return the noisiest layers, worst first."""
    known = [layer for layer in layers if layer.own_db is not None]
    return sorted(known, key=lambda layer: layer.own_db or 0.0)[:WORST]


def _range(ends: tuple[float, float] | None) -> list[float] | None:
    return None if ends is None else [round(number, 3) for number in ends]


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
