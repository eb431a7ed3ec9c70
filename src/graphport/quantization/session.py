"""Session of a quantization: candidates, and the steps that improve them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from graphport.core.diagnostics import Diagnostic
from graphport.core.dtypes import DType
from graphport.ir import rewrite
from graphport.quantization.calibrate import calibrate, candidate_qparams
from graphport.quantization.candidate import Candidate
from graphport.quantization.clipping import clipping, ends_of_clip
from graphport.quantization.confidence_interval import unseen_part
from graphport.quantization.dispatch import ComputeDomain, Method, dispatch
from graphport.quantization.early_balancing import MIN_GAIN_DB, STRENGTH, UNBALANCED_SNR_DB, balance_early
from graphport.quantization.equalize import channel_axes, equalize
from graphport.quantization.fastest_placement import SLOWER, fastest_float_nodes
from graphport.quantization.fingerprint import Fingerprint, kinds, model_digests
from graphport.quantization.float_fallback import (
    REASON,
    step_name,
    with_cheap_layers,
    with_float_layers,
    with_real_curves,
    with_real_weights,
)
from graphport.quantization.insert_qdq import Quantization, Weight, insert_qdq
from graphport.quantization.layer_tasks import nearest_weight
from graphport.quantization.layerwise import Follower, bytes_of
from graphport.quantization.lookup_tables import asked_tables
from graphport.quantization.parameters import QuantizationParameters, activation_qparams, limits
from graphport.quantization.placement import UNDISPATCHED, decide_placement
from graphport.quantization.recurrent import is_storable
from graphport.quantization.report import Step
from graphport.quantization.require_layers import refuse_empty
from graphport.quantization.search import range_search
from graphport.quantization.shards import Plan, here, merged, parted, sharded
from graphport.quantization.statistics_file import observed_with
from graphport.quantization.unscale import unscale
from graphport.quantization.weights import PAIR
from graphport.quantization.wide_activations import widened
from graphport.quantization.writer_support import rejected_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.calibrate import Method as Calibration
    from graphport.quantization.choices import Choices
    from graphport.quantization.distributed import LayersElsewhere
    from graphport.quantization.engine import Judge, Noise
    from graphport.quantization.layer import Layer
    from graphport.quantization.layerwise import Choose
    from graphport.quantization.observe import Statistics
    from graphport.quantization.placement import Placement
    from graphport.quantization.samples import Progress, Run, Samples
    from graphport.quantization.settings import Settings
    from graphport.quantization.shards import Observer

Result = TypeVar("Result")

_ALL_STRENGTHS = (0.1, 0.3, 0.5, 0.75)
"""Strengths of channel balancing, as far as they help; preset `best` tries all."""
_RUN, _LEAST_RUN = 1 << 20, 8
"""Bytes of values of a run, which fit the processor's cache, and the minimum number of samples of a run."""
_MIN_CURVES_GAIN_DB = 1.0
"""Minimum gain in dB of keeping all nodes without weights float."""
_BYTE = 8
_CLEAR_LOSS, _GLANCED = 0.5, 3
"""Loss in dB by which a change is rejected early, and the maximum number of samples of that check."""
_MIN_FLOAT_GAIN_DB = {"fast": 0.5, "balanced": 0.5, "best": 0.1}
"""Minimum gain in dB of keeping layers float: they cost time."""


@dataclass(slots=True, eq=False)
class QuantizationSession:
    """State of one quantization."""

    choices: Choices
    samples: Samples
    judge: Judge
    held_back: frozenset[int]
    followed: list[Run]
    on_progress: Progress | None = None
    statistics: Path | None = None
    observer: Observer = here
    source: Graph | None = None
    """The model before preparation; times are relative to it."""
    elsewhere: LayersElsewhere | None = None
    given: Graph | None = None
    unbalanced: Candidate | None = None
    steps: list[Step] = field(default_factory=list[Step])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of values of one sample, by name, for open shapes."""
    sample_bytes: int = 1
    """Estimated bytes of values that a run of one sample holds at once."""
    kept: dict[str, str] = field(default_factory=dict[str, str])
    """Results of nodes that stay float, with the reasons."""
    slow: tuple[str, ...] | None = None
    """Results of nodes that stay float because they are faster so; `None` before the first placement."""

    def candidate(self, graph: Graph, states: Mapping[str, Statistics], floating: Collection[str] = ()) -> Candidate:
        """Place, calibrate and quantize `graph` to the nearest codes."""
        placement = self.decide_placement(graph, floating)
        for node in placement.floating:
            if any(value.name in floating for value in node.results):
                placement.floating[node] = REASON
        by_value = {value: states[value.name] for value in placement.roots if value.name in states}
        quantization = self.quantization(placement)
        for value, state in by_value.items():
            fixed = self.fixed(value)
            others = [states[other.name] for other in placement.shared.get(value, ()) if other.name in states]
            ends = ends_of_clip(value)
            quantization.all_qparams[value] = self.common_qparams([state, *others], ends) if fixed is None else fixed
            if fixed is not None or others:
                quantization.fixed.add(value)
        for node, layer in placement.layers.items():
            quantization.weights[node] = self.weight(node, layer, quantization.qparams_of(layer.input))
        if self.choices.settings.weights_only:
            quantization.all_qparams.clear()
            quantization.tables = asked_tables(self.choices, graph)
        found = Candidate(graph, quantization, by_value, floating=tuple(floating))
        return widened(self.choices, found, self.choices.settings.wide_nodes)

    def quantization(self, placement: Placement) -> Quantization:
        """Return a `Quantization` with the placement and the target's properties, but without qparams and weights."""
        target = self.choices.target
        return Quantization(
            placement,
            bias_bits=target.bias_bits,
            is_narrow=target.is_narrow,
            guarded=target.guarded,
            short_factors=target.short_factors,
        )

    def weight(self, node: Node, layer: Layer, source: QuantizationParameters | None) -> Weight:
        """Quantize the weight of a layer to the nearest codes; `source` is the qparams of its input."""
        return nearest_weight(self.choices, node, layer, source)

    def decide_placement(self, graph: Graph, floating: Collection[str] = ()) -> Placement:
        """Return the placement of `graph`; `floating` names float layers."""
        if self.slow is None:
            self.slow = fastest_float_nodes(self.choices, graph, self._placed(graph, floating), self.sizes)
        placement = self._placed(graph, (*floating, *self.slow))
        for node in placement.floating:
            names = {value.name for value in node.results}
            placement.floating[node] = next((self.kept[x] for x in names if x in self.kept), placement.floating[node])
            if names.intersection(self.slow).difference(self.kept) and not names.intersection(floating):
                placement.floating[node] = SLOWER
        return placement

    def _placed(self, graph: Graph, floating: Collection[str]) -> Placement:
        settings = self.choices.settings
        names = {name for node in graph for name in (node.name, *(value.name for value in node.results))}
        decisions = dispatch(
            graph,
            settings.dispatch or (Method.ALL_IN if settings.full_integer else Method.CONSERVATIVE),
            floating=[*settings.float_nodes, *(name for name in (*self.kept, *floating) if name in names)],
            quantized=settings.quantize_nodes,
        )
        chosen = {node for node, decision in decisions.items() if decision.place is ComputeDomain.QUANTIZED}
        asked = {node for node in graph if decisions[node].is_asked and node not in chosen}
        forced = {node for node in chosen if decisions[node].is_asked}
        target, summed = self.choices.target, self.choices.summed
        if self.choices.activation.bits > _BYTE:
            target = replace(target, pointwise=target.pointwise - target.bytes_only)
        is_whole = settings.full_integer
        found = decide_placement(graph, target, chosen | asked, asked, forced=forced, summed=summed, is_whole=is_whole)
        if settings.weights_only and DType.INT8 in target.stored:
            most = PAIR // 2 if settings.dynamic and self.choices.reach != "full" else limits(DType.INT8)[1]
            found.recurrent = {node: most for node in found.floating if node in chosen and is_storable(node)}
            for node in found.recurrent:
                del found.floating[node]
        for node, reason in found.floating.items():
            if reason == UNDISPATCHED:
                found.floating[node] = f"{reason}: {decisions[node].reason}"
        return found

    def common_qparams(
        self, states: Sequence[Statistics], within: tuple[float, float] = (-np.inf, np.inf)
    ) -> QuantizationParameters:
        """Return qparams shared by several values: they cover the union of their ranges."""
        all_qparams, choices = [self.qparams(state, within=within) for state in states], self.choices
        if len(all_qparams) == 1 or choices.activation.is_floating:
            return max(all_qparams, key=lambda qparams: qparams.max_value)
        low, high = min(qparams.min_value for qparams in all_qparams), max(qparams.max_value for qparams in all_qparams)
        options = {"is_symmetric": choices.is_symmetric, "power_of_two": choices.power_of_two}
        return activation_qparams(low, high, choices.activation, **options)

    def fixed(self, value: Value) -> QuantizationParameters | None:
        """Return the qparams that the target's kernel requires for its result; `None` if they are free."""
        dtype, maker = self.choices.activation, value.producer
        qparams = None if maker is None else self.choices.target.fixed_qparams(maker.op, dtype)
        if qparams is None:
            return None
        scale, zero = qparams
        return QuantizationParameters(
            dtype, np.asarray(scale, np.float32), np.asarray(zero, dtype.numpy), *limits(dtype)
        )

    def qparams(
        self,
        state: Statistics,
        method: Calibration | None = None,
        within: tuple[float, float] = (-np.inf, np.inf),
    ) -> QuantizationParameters:
        """Return the qparams of a value, by the selected method unless another is given."""
        choices = self.choices
        return calibrate(
            state,
            choices.activation,
            method or choices.calibration,
            is_symmetric=choices.is_symmetric,
            percentile=choices.settings.percentile,
            power_of_two=choices.power_of_two,
            within=within,
        )

    def observe(
        self, graph: Graph, statistics: Path | None = None, runs: Iterable[Run] | None = None
    ) -> dict[str, Statistics]:
        """Observe the values of `graph` that decide qparams, on all samples or on `runs`.

        With `statistics`, use and complete that file.
        """
        settings = self.choices.settings
        if settings.weights_only:
            return {}
        placement = self.decide_placement(graph)
        wanted = [*placement.roots, *(value for values in placement.shared.values() for value in values)]
        values = [value for value in wanted if value.producer is not None or value.is_input]
        plan = Plan.of(graph, channel_axes(graph, values), values, settings.threads)
        size = fitting_batch(settings, sum(self.sizes.get(value.name, bytes_of(value)) for value in values))
        if runs is not None:
            return merged(plan.axes, here(plan, sharded(parted(runs, size)), lambda _: None))
        shards = sharded(self.samples.runs(size, leave_out=self.held_back))
        total = max(self.samples.count - len(self.held_back), 1)
        seen = 0

        def report_progress(count: int) -> None:
            nonlocal seen
            seen += count
            self._tell("observe", seen, total)

        if statistics is None:
            return merged(plan.axes, self.observer(plan, shards, report_progress))
        way = {"samples in a run": size, "samples held back": len(self.held_back)}
        fingerprint = Fingerprint(*model_digests(graph), kinds(self.samples), plan.axes, way, settings.as_json())
        return observed_with(statistics, fingerprint, plan, shards, self.observer, report_progress)

    def adjust_layerwise(
        self, candidate: Candidate, *, adjusts: bool, searches: bool = False, refines: bool = False
    ) -> None:
        """Follow samples through a candidate and adjust its layers."""
        candidate.follower = self.follower(candidate, adjusts=adjusts, searches=searches, refines=refines)
        candidate.follower.run([inputs for inputs, _ in self.followed])

    def follower(
        self, candidate: Candidate, *, adjusts: bool, searches: bool = False, refines: bool = False
    ) -> Follower:
        """Return a follower of samples through a candidate."""
        choices = self.choices
        return Follower(
            candidate.graph,
            candidate.quantization,
            adjusts=adjusts and choices.rounds,
            corrects=adjusts and choices.corrects,
            refines=refines,
            reach=choices.reach,
            choose=self._chooser(candidate) if searches else None,
            elsewhere=None if self.elsewhere is None or not adjusts else partial(self.elsewhere, choices),
            threads=choices.settings.threads,
            on_progress=None if self.on_progress is None else lambda done, total: self._tell("adjust", done, total),
        )

    def _chooser(self, candidate: Candidate) -> Choose:
        """Return a chooser among fractions of present ranges and, if no method is set, ranges of all methods."""
        choices = self.choices

        def of_methods(value: Value) -> list[QuantizationParameters]:
            state = candidate.states.get(value)
            if state is None or choices.calibration != "auto":
                return []
            return candidate_qparams(
                state,
                choices.activation,
                is_symmetric=choices.is_symmetric,
                percentile=choices.settings.percentile,
                power_of_two=choices.power_of_two,
            )

        return range_search(
            candidate.quantization,
            is_symmetric=choices.is_symmetric,
            power_of_two=choices.power_of_two,
            others=of_methods,
        )

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(stage, done, total)

    def measure(self, candidate: Candidate) -> Noise:
        """Measure the noise of a candidate on held-out samples."""
        candidate.noise = noise = self.judge.noise(insert_qdq(candidate.graph, candidate.quantization))
        is_balanced, all_qparams = candidate.graph is not self.given, candidate.quantization.all_qparams
        noise.unseen = unseen_part(all_qparams, candidate.states, noise.ratio, is_balanced=is_balanced)
        return noise

    def snr(self, candidate: Candidate) -> float:
        """Return the SNR in dB, measured once."""
        return (candidate.noise or self.measure(candidate)).snr

    def better(self, name: str, old: Candidate, new: Candidate, gain: float = 0.0) -> Candidate:
        """Return the better candidate and report the step; the new one must gain some dB."""
        before, after = self.snr(old), self.snr(new)
        is_kept = after > before + gain
        self.steps.append(Step(name, after, is_kept))
        return new if is_kept else old

    def run(self, graph: Graph) -> Candidate:
        """Return the best candidate for `graph`."""
        self.given = graph
        if self.choices.settings.weights_only:
            start = self._calibrated(graph)
            return self.finished(self._unscaled(start), start)
        if not self.followed:
            return self.finished(self._calibrated(graph))
        if not self.choices.equalizes:
            is_free = self.choices.settings.equalize is None and self.choices.settings.smooth is None
            twin = self.timed("equalize", balance_early, self, graph) if is_free else None
            if twin is not None:
                return self.finished(self._calibrated(twin))
            best = self._calibrated(graph)
            return self.finished(self._balanced(best) if is_free and self.snr(best) < UNBALANCED_SNR_DB else best)
        if self.choices.settings.preset == "best":
            return self.finished(self._best_of_all(graph))
        start = self.unbalanced = self._calibrated(graph)
        return self.finished(self._balanced(start), start)

    def timed(self, name: str, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a function and record its time."""
        started = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def _calibrated(self, graph: Graph) -> Candidate:
        states = self.timed("observe", self.observe, graph, self.statistics)
        start = self.timed("calibrate", self.candidate, graph, states)
        target = self.choices.target
        if target.tries_writer:
            rejected = rejected_layers(insert_qdq(start.graph, start.quantization), target.formats[0])
            self.kept |= rejected
            start = self.timed("calibrate", self.candidate, graph, states) if rejected else start
        refuse_empty(graph, start.quantization.placement, self.choices.target)
        method = self.choices.calibration
        if method not in ("auto", "min-max"):
            all_qparams = start.quantization.all_qparams
            self.findings += clipping(method, all_qparams, start.states, lambda state: self.qparams(state, "min-max"))
        self.steps.append(Step("calibrate", self.measure(start).snr, is_kept=True))
        return start

    def finished(self, best: Candidate, nearest: Candidate | None = None) -> Candidate:
        """Return `best`, adjusted if that helps, with the analysis of its layers.

        If it does not help, `nearest` is tried, too: it may be better after adjustment.
        """
        whole = best
        if best.follower is None and self.followed:
            best = self.cheaper(best)
        if best.follower is None and self.followed and (self.choices.rounds or self.choices.corrects):
            before = best
            best = self.timed("round", self._adjusted, best, "round")
            if best is before and nearest is not None and nearest is not best:
                other = self.timed("round", self._adjusted, nearest, "round without equalize itself")
                best = self.better("round without equalize", best, other)
            if best.floating != whole.floating and self.snr(best) < self.snr(whole):
                # Float weights promised more gain than remains after quantization.
                best = self.better("round without them", best, self._rounded(whole, "round without them itself"))
        if self.choices.searches and self.followed:
            best = self.timed("search", self._searched, best)
        if self.choices.refines and self.choices.rounds and self.choices.weight.is_integer and self.followed:
            best = self.timed("refine", self._refined, best)
        if best.follower is None and self.followed:
            self.timed("analyse", self._analysed, best)
        return best

    def _balanced(self, start: Candidate) -> Candidate:
        """Return `start`, or a candidate with balanced channels if that helps."""
        twin = rewrite.copy(start.graph)
        if not equalize(
            twin, {value.name: state for value, state in start.states.items()}, STRENGTH
        ) or self._is_hopeless(twin, start):
            return start
        new = self.timed("equalize", self.candidate, twin, self.timed("observe", self.observe, twin))
        return self.better("equalize", start, new, MIN_GAIN_DB)

    def glance(self, graph: Graph, runs: Iterable[Run]) -> Candidate:
        """Return a candidate that is calibrated on a part of the samples."""
        return self.candidate(graph, self.observe(graph, None, runs))

    def _unscaled(self, start: Candidate) -> Candidate:
        """Return `start`, or a candidate with channels of outlying weights rescaled (`unscale`) if that is better."""
        twin = rewrite.copy(start.graph)
        if self.choices.settings.equalize is False or not unscale(twin):
            return start
        return self.better("unscale", start, self.timed("equalize", self.candidate, twin, {}), MIN_GAIN_DB)

    def _is_hopeless(self, twin: Graph, start: Candidate) -> bool:
        """Whether `twin` is clearly worse when both are calibrated on the few samples in memory."""
        if _GLANCED * sum(count for _, count in self.followed) > self.samples.count:
            return False
        new, old = (self.timed("equalize", self.glance, graph, self.followed) for graph in (twin, start.graph))
        is_hopeless = self.snr(new) < self.snr(old) - _CLEAR_LOSS
        if is_hopeless:
            self.steps.append(Step("equalize", self.snr(new), is_kept=False))
        return is_hopeless

    def cheaper(self, best: Candidate) -> Candidate:
        """Return `best`, or a candidate whose cheap layers stay float if that is better.

        If weights are rounded again afterwards, candidates are compared with float weights: the error of nearest
        rounding hides the activations' noise, and will be reduced.
        """
        is_last = not (self.choices.rounds or self.choices.corrects)
        judged = best if is_last else with_real_weights(best)
        for new in self.timed("spare", with_cheap_layers, self, best):
            other = new if is_last else with_real_weights(new)
            name = step_name(new) if is_last else f"{step_name(new)}, weights real"
            if self.better(name, judged, other, _MIN_FLOAT_GAIN_DB[self.choices.settings.preset]) is other:
                best, judged = new, other
        new = with_real_curves(self, best)
        if new is not None:
            other = new if is_last else with_real_weights(new)
            best = (
                new if self.better("nodes without weights real", judged, other, _MIN_CURVES_GAIN_DB) is other else best
            )
        return best

    def _best_of_all(self, graph: Graph) -> Candidate:
        """Return the best of all strengths of balancing, each calibrated on all samples and adjusted."""
        best = start = self._calibrated(graph)
        states = {value.name: state for value, state in start.states.items()}
        best = self._rounded(best, "round")
        for new in self.timed("spare", with_cheap_layers, self, start):
            name = step_name(new)
            best = self.better(
                name,
                best,
                self._rounded(new, f"{name}, round itself"),
                _MIN_FLOAT_GAIN_DB[self.choices.settings.preset],
            )
        for strength in _ALL_STRENGTHS:
            twin = rewrite.copy(graph)
            if equalize(twin, states, strength):
                new = self.candidate(twin, self.timed("observe", self.observe, twin))
                new = with_float_layers(self, new, best.floating, REASON) if best.floating else new
                new = self._rounded(new, f"equalize {strength:g}, round itself")
                best = self.better(f"equalize {strength:g}", best, new, MIN_GAIN_DB)
        return best

    def _rounded(self, best: Candidate, name: str) -> Candidate:
        """Return `best`, with adjusted layers if requested."""
        return self.timed("round", self._adjusted, best, name) if self.choices.rounds or self.choices.corrects else best

    def _adjusted(self, best: Candidate, name: str) -> Candidate:
        new = Candidate(best.graph, _copy(best.quantization), best.states, floating=best.floating)
        self.adjust_layerwise(new, adjusts=True)
        return self.better(name, best, new)

    def _searched(self, best: Candidate) -> Candidate:
        """Return `best` with ranges selected by the consumers' noise, and adjusted layers."""
        start = self.candidate(best.graph, {value.name: state for value, state in best.states.items()}, best.floating)
        self.adjust_layerwise(start, adjusts=True, searches=True)
        return self.better("search", best, start)

    def _refined(self, best: Candidate) -> Candidate:
        """Return `best` with its qparams and another search for weight codes."""
        start = self.candidate(best.graph, {value.name: state for value, state in best.states.items()}, best.floating)
        start.quantization.all_qparams = dict(best.quantization.all_qparams)
        self.adjust_layerwise(start, adjusts=True, refines=True)
        return self.better("refine", best, start)

    def followed_again(self, best: Candidate, before: Candidate) -> Candidate:
        """Return `best` with the noise of its layers, if it has more float layers than `before`."""
        known = before.follower
        if known is None or best is before or best.follower not in (None, known):
            return best
        self.timed("analyse", self._analysed, best)
        if best.follower is not None:
            # The rounding of weights is reused, unless balancing changed the nodes.
            found = {node: (noise, known.noise.get(node, noise)) for node, noise in best.follower.noise.items()}
            best.follower.noise = {node: replace(noise, means=old.means) for node, (noise, old) in found.items()}
        return best

    def _analysed(self, best: Candidate) -> None:
        """Measure the noise of layers without changing them."""
        twin = Candidate(best.graph, _copy(best.quantization), best.states, floating=best.floating)
        self.adjust_layerwise(twin, adjusts=False)
        best.follower = twin.follower


def fitting_batch(settings: Settings, each: int) -> int:
    """Return the number of samples per run, if each takes `each` bytes.

    Larger runs are hardly faster, and memory would grow with the number of samples up to the size of one.
    """
    each = max(each, 1)
    return max(min(settings.batch, settings.memory // 4 // each, max(_RUN // each, _LEAST_RUN)), 1)


def _copy(quantization: Quantization) -> Quantization:
    return replace(quantization, all_qparams=dict(quantization.all_qparams), weights=dict(quantization.weights))
