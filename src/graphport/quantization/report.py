"""What a quantization did, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.core.table import Tabular
from graphport.quantization.verdict import RUINED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.core.diagnostics import Diagnostic
    from graphport.quantization.goals import FrontPoint
    from graphport.quantization.settings import Settings

WORST = 10
"""How many layers are named first."""


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer with weights.

    `own_db` is the signal to noise of its result if all before it were real, `accumulated_db` with all that is before
    it; `means` how its weight was rounded; `reasons` what makes it noisy, or why it stays floating.
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
        """Plain data."""
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


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was tried, what it gave on samples that were held back, and whether it was kept."""

    name: str
    snr_db: float
    is_kept: bool

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "snr_db": _rounded(self.snr_db), "kept": self.is_kept}


@dataclass(frozen=True, slots=True)
class QuantizationReport(Tabular):
    """The whole story of one quantization.

    `snr_db` and `agreement` are of the outputs, on samples that were held back; with `snr_range` and `agreement_range`
    between what they lie on other samples of the kind (95 %). `goal_met` is `None` without a goal.
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
    """Plans that no other is nearer, faster and smaller than, the nearest last; one where only one was made."""
    chosen: FrontPoint | None = None
    """The plan of these that was taken."""
    accuracy_level: int | None = None
    """Of ONNX Runtime's products with weights of few bits, where the file says it: 1 does not round activations."""
    exact_layers: tuple[str, ...] = ()
    """Results of such products for which the file says that; of the others it says 4 then."""
    snr_as_run_db: float | None = None
    """The same as the runtime computes by itself, unless it is told not to.

    ONNX Runtime rounds activations of products with few bits, `None` where there are none. OpenVINO does so as well,
    and computes in bfloat16 where this processor has it; `None` where it is not here.
    """
    measured: tuple[float, float] | None = None
    """What the measure that was given says of the source and of the result, where no plans were made."""

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each layer with weights."""
        return [layer.as_json() for layer in self.layers]

    @property
    def caption(self) -> str:
        """How near the outputs are, and on how many samples that was seen."""
        held = self.held_back or self.samples
        met = "" if self.goal_met is None else f", the goal is {'met' if self.goal_met else 'not met'}"
        return (
            f"{self.snr_db:.2f} dB on {held} samples{met}" if held else f"{self.snr_db:.2f} dB on made-up inputs{met}"
        )

    @property
    def worst(self) -> list[LayerReport]:
        """The noisiest layers, the worst first."""
        return worst_of(self.layers)

    @property
    def floating(self) -> list[LayerReport]:
        """The layers that stay floating."""
        return [layer for layer in self.layers if not layer.is_quantized]

    @property
    def passed(self) -> bool:
        """Whether the goal was met; without one, whether the outputs are more than noise."""
        return self.snr_db >= RUINED if self.goal_met is None else self.goal_met

    def explain(self, name: str) -> LayerReport | None:
        """What is known of the layer of that name."""
        return next((layer for layer in self.layers if layer.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "settings": self.settings.as_json(),
            "samples": self.samples,
            "held_back": self.held_back,
            "snr_db": _rounded(self.snr_db),
            "snr_range_db": _range(self.snr_range),
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


def worst_of(layers: Iterable[LayerReport]) -> list[LayerReport]:
    """The noisiest layers, the worst first."""
    known = [layer for layer in layers if layer.own_db is not None]
    return sorted(known, key=lambda layer: layer.own_db or 0.0)[:WORST]


def _range(ends: tuple[float, float] | None) -> list[float] | None:
    return None if ends is None else [round(number, 3) for number in ends]


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
