"""Find the Pareto front of plans, starting from a fully quantized base, and the plan that meets the goals."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.core.packages import install
from graphport.quantization import engine
from graphport.quantization.dynamic import rounded_while_it_runs
from graphport.quantization.estimate import conversion_time, elements, kernel_time
from graphport.quantization.export_form import to_export_form
from graphport.quantization.float_fallback import with_float_layers
from graphport.quantization.goals import FrontPoint, Goals, front, numbered_as, timed_until_sure
from graphport.quantization.insert_qdq import insert_qdq
from graphport.quantization.nbits import has_products
from graphport.quantization.optimise.costs import RelativeTimer, Times, preparer, steadied, times_of
from graphport.quantization.optimise.plans import cost_of, plans
from graphport.quantization.optimise.presets import of_preset
from graphport.quantization.optimise.table import read_table, unknown_to
from graphport.quantization.optimise.weight_storage import Storing
from graphport.quantization.precision import all_widened, sensitivities, with_less_noise
from graphport.quantization.report import Step
from graphport.quantization.wide_activations import has_wide_layers, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph, Node
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.choices import Choices
    from graphport.quantization.samples import Run
    from graphport.quantization.session import QuantizationSession
    from graphport.quantization.settings import Settings

_REASON = "float is faster here, or its accuracy is worth the time"
_BATCH = 16
_PRODUCTS = 1 << 31
"""Maximum number of products of a timed run, if one sample allows several: longer runs only take longer."""
_ROOM = 1 << 25
"""Maximum bytes of values of that run."""
_SUM_FRACTIONS = (0.1, 1.0)
"""Fractions of products with unrounded sums that are tried."""
_MAX_PLANS = 9
_BYTE = 8
_GAINED, _QUICKER = 1.0, 0.97
"""Maximum gain in dB by separate weight rounding, and the minimum fraction of its time after a timing correction."""
_WIDE_LAYER_COUNTS = (1, 4)
"""Numbers of layers for which 16-bit activations are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The selected candidate, its front, and diagnostics."""

    candidate: Candidate
    front: tuple[FrontPoint, ...]
    chosen: FrontPoint
    goal_met: bool | None
    findings: tuple[Diagnostic, ...]


def refuse_goals(goals: Goals, settings: Settings) -> None:
    """Reject goals that cannot be measured here, before any computation.

    Raises:
        DiagnosticError: QUANT0024 the target's runtime is not installed, and there is no latency table; QUANT0028
            invalid
            table.
    """
    target = settings.target
    if settings.latency_table is not None:
        read_table(Path(settings.latency_table))
        return
    if goals.latency is not None and preparer(target) is None:
        message = f"a latency on {target} cannot be measured here"
        remedy = f"install its runtime: {install(target)}" if target in ("onnxruntime", "openvino") else None
        raise DiagnosticError(Diagnostic("QUANT0024", message, None, remedy or "remove --max-latency"))


def optimised(
    session: QuantizationSession, base: Candidate, goals: Goals, metric: Any = None, asked: Choices | None = None
) -> Optimum:
    """Return the best plan of the front for `goals`.

    Args:
        session: the session of `base`, which measures others.
        base: as many integer layers as possible.
        goals: the goals; without any the knee of the front is taken.
        metric: a function of a model runner (inputs to outputs) that returns a score; larger is better.
        asked: settings without a front, whose result is a candidate, too.
    """
    # The requested point does not influence the front: otherwise its numbers would change.
    point, goals = goals.point, replace(goals, point=None)
    table = _table(session, base)
    noises = _noises(session, base)
    planned = session.timed("plans", _planned, session, base, table, noises)
    presets = [] if asked is None else session.timed("preset", of_preset, session, base, asked)
    candidates = [base, *([] if table else _variants(session, base)), *planned]
    first = len(candidates)
    candidates += [each.candidate for each in presets]
    points = _measured(session, base, candidates, metric, table)
    if presets and (presets[0].has_own or _may_be_chosen(goals, points, first)):
        candidates[first] = session.timed("preset", presets[0].adjusted)
        points[first : first + 1] = _measured(session, base, [candidates[first]], metric, table)
    storing = Storing(session, base, _timed_run(session, base, goals))
    while table is None and session.choices.target.stored and base.quantization.placement.layers:
        more = session.timed("storing", storing.further_candidates, goals, points)
        if not more:
            break
        candidates += more
        points += _measured(session, base, more, metric, table)
    order = [] if session.choices.settings.full_integer else list(noises)
    for number in _halvings(goals, points, order):
        each = with_less_noise(session, base, [node.output.name for node in order[:number]], _REASON)
        candidates.append(each)
        points += _measured(session, base, [each], metric, table)
    if table is None:
        points = _timed_again(session, base, goals, candidates, points)
    wanted = goals.select_point(points)
    kept = front(points, wanted=wanted)
    by_point = {id(each): candidate for each, candidate in zip(points, candidates, strict=True)}
    numbered = [replace(each, point=number) for number, each in enumerate(kept, 1)]
    chosen = numbered[kept.index(wanted)] if point is None else numbered_as(numbered, point)
    candidate = by_point[id(kept[chosen.point - 1])]
    met = None if not goals.are_any else not goals.missed(chosen)
    findings = [] if met is not False else [_missed(goals, chosen, metric)]
    session.steps.append(Step(f"point {chosen.point} of {len(numbered)}", chosen.snr_db, is_kept=True))
    return Optimum(candidate, tuple(numbered), chosen, met, tuple(findings))


def _may_be_chosen(goals: Goals, points: Sequence[FrontPoint], place: int) -> bool:
    """Whether a point would be selected with `_GAINED` dB more and `_QUICKER` of its time, as adjustment may bring."""
    point = points[place]
    part = None if point.latency is None else _QUICKER * point.latency
    better = replace(point, snr_db=point.snr_db + _GAINED, latency=part)
    return goals.select_point([*points[:place], better, *points[place + 1 :]]) is better


@dataclass(frozen=True, slots=True, eq=False)
class _TableTimes:
    """Times of nodes from a table, and microseconds of a float run."""

    before: Times
    after: Times
    entries: int
    whole: float


def _table(session: QuantizationSession, base: Candidate) -> _TableTimes | None:
    """Return the latency table's times of nodes that may be quantized; `None` without a table."""
    path = session.choices.settings.latency_table
    if path is None:
        return None
    table = read_table(Path(path))
    placement = base.quantization.placement
    before, after, missing = table.times([*placement.layers, *placement.pointwise])
    unknown = [name for name in missing if any(name == layer.name for layer in placement.layers.values())]
    session.findings += unknown_to(table, unknown, session.choices.target.name)
    return _TableTimes(before, after, table.entries, table.whole)


def _variants(session: QuantizationSession, base: Candidate) -> list[Candidate]:
    """Return variants of `base` in which some or all layers return int32 sums that are dequantized."""
    if not session.choices.target.summing or session.choices.settings.weights_only:
        return []
    found: list[Candidate] = []
    for part in _SUM_FRACTIONS:
        other = copy.copy(session)
        other.choices = replace(session.choices, summed=part)
        new = with_float_layers(other, base, (), _REASON)
        if (
            list(new.quantization.placement.summing)
            or new.quantization.all_qparams.keys() != base.quantization.all_qparams.keys()
        ):
            found.append(new)
    return found


def _noises(session: QuantizationSession, base: Candidate) -> dict[Node, float]:
    """Return the noise of each layer alone, noisiest first; empty if there is no choice."""
    if len(base.quantization.placement.layers) < 2 or session.choices.settings.weights_only:
        return {}
    found = sensitivities(session, base)
    return {node: found[node] for node in sorted(found, key=found.__getitem__, reverse=True)}


def _halvings(goals: Goals, points: list[FrontPoint], order: Sequence[Node]) -> Iterator[int]:
    """Find by bisection the least number of noisiest layers to keep float if no point is accurate enough.

    The result for the last number is the last of `points`.
    """
    if goals.snr is None or any(point.least_db >= goals.snr for point in points):
        return
    low, high = 0, len(order) - 1
    while low < high:
        middle = (low + high + 1) // 2
        yield middle
        low, high = (low, middle - 1) if points[-1].least_db >= goals.snr else (middle, high)


def _planned(
    session: QuantizationSession, base: Candidate, table: _TableTimes | None, noises: Mapping[Node, float]
) -> list[Candidate]:
    """Yield `base` with plans of float layers, by measured kernel times if the runtime reports them."""
    if not noises:
        return []
    names = session.choices.target.name
    chosen: list[tuple[str, ...]] = []
    if table is not None:
        chosen = plans(base, session.choices.target, table.before, table.after, noises, table.entries)
    elif names == "onnxruntime":
        inputs, count = _timed_inputs(session, base)
        known = [node.name for node in base.graph if node.name]
        settings = session.choices.settings
        before = times_of(to_export_form(base.graph, settings), inputs, known)
        after = times_of(to_export_form(insert_qdq(base.graph, base.quantization), settings), inputs, known)
        if before is not None and after is not None:
            before, after = steadied((before, after), _expected(session, base, count))
            chosen = plans(base, session.choices.target, before, after, noises, count)
    order = list(noises)
    by_noise = [tuple(node.output.name for node in order[:k]) for k in (1, 2, 4, 8, 16) if k < len(order)]
    found = [names for names in dict.fromkeys([*chosen, *by_noise]) if names][:_MAX_PLANS]
    real = (
        []
        if session.choices.settings.full_integer
        else [with_less_noise(session, base, names, _REASON) for names in found]
    )
    return [*real, *_wide_plans(session, base, order)]


def _expected(session: QuantizationSession, base: Candidate, count: int) -> tuple[Times, Times]:
    """Return expected times of nodes for `count` samples by kernel rates, float and quantized, as far as known."""
    rates, placement = session.choices.target.rates, base.quantization.placement
    real, rounded = Times(), Times()
    if rates is not None:
        for node in (*placement.layers, *placement.pointwise):
            layer = placement.layers.get(node)
            for times, is_rounded in ((real, False), (rounded, True)):
                spent = kernel_time(node, layer, rates, session.sizes, is_rounded=is_rounded)
                times.nodes[node.name] = count * spent / 1e3
        values = list(base.quantization.all_qparams)
        whole = sum(elements(value, session.sizes) for value in values)
        spent = sum(conversion_time(value, rates, session.sizes) for value in values)
        real.rate = rounded.rate = spent / max(whole, 1) / 1e3
    return real, rounded


def _wide_plans(session: QuantizationSession, base: Candidate, order: Sequence[Node]) -> list[Candidate]:
    """Return `base` with 16-bit activations: of some noisiest layers if the target mixes widths, else of all."""
    choices = session.choices
    if has_wide_layers(choices.settings, choices.target):
        sets = [[node.output.name for node in order[:k]] for k in _WIDE_LAYER_COUNTS if k < len(order)]
        return [widened(choices, base, names) for names in sets]
    whole = None if choices.target.mixes else all_widened(session, base)
    return [] if whole is None else [whole]


def _timed_run(session: QuantizationSession, base: Candidate, goals: Goals) -> Run | None:
    """Return a run to time layers with, if time counts and the runtime reports it."""
    counts = goals.latency is not None or not goals.are_any or not goals.is_small
    return _timed_inputs(session, base) if counts and session.choices.target.name == "onnxruntime" else None


def _timed_inputs(session: QuantizationSession, base: Candidate) -> tuple[dict[str, Any], int]:
    """Return samples in one run, as many as are timed at once, and their number."""
    runs = session.judge.runs
    inputs, count = runs[0]
    layers = base.quantization.placement.layers
    each = sum(layer.depth * elements(node.output, session.sizes) for node, layer in layers.items())
    most = max(min(_BATCH, _PRODUCTS // max(each, 1), _ROOM // session.sample_bytes), 1)
    if count > most and all(x.ndim and x.shape[0] == count for x in inputs.values()):
        inputs, count = {name: x[:most] for name, x in inputs.items()}, most
    for more, number in runs[1:]:
        if count + number > most or not _joins(inputs, more, count):
            break
        inputs = {name: _joined(array, more[name]) for name, array in inputs.items()}
        count += number
    return dict(inputs), count


def _joins(a: Any, b: Any, count: int) -> bool:
    return all(
        name in b and x.ndim and b[name].ndim == x.ndim and x.shape[0] % count == 0 and x.shape[1:] == b[name].shape[1:]
        for name, x in a.items()
    )


def _joined(a: Any, b: Any) -> Any:
    import numpy as np

    return np.concatenate([a, b])


def _measured(
    session: QuantizationSession,
    base: Candidate,
    candidates: Sequence[Candidate],
    metric: Any,
    table: _TableTimes | None,
) -> list[FrontPoint]:
    """Measure each of `candidates`; times are relative to the given model."""
    beside = _relative_timer(session, base) if table is None else None
    times = None if table is None else _tabulated(session, base, candidates, table)
    points: list[FrontPoint] = []
    for number, each in enumerate(candidates):
        quantized = _build_graph(session, each)
        graph = to_export_form(quantized, session.choices.settings)
        is_rounded = session.choices.settings.dynamic or (
            _is_rounded(session.choices.settings) and has_products(quantized)
        )
        noise = session.judge.noise(graph, as_run=True) if is_rounded else each.noise or session.measure(each)
        point = FrontPoint(
            number,
            noise.snr,
            noise.snr_range,
            noise.margin,
            noise.agreement,
            times[1][number] if times is not None else None if beside is None else beside.relative_time(graph),
            None,
            _bytes(graph),
            _layers(session, each),
            None if metric is None else float(metric(runner(graph))),
        )
        points.append(point)
        if session.on_progress is not None:
            session.on_progress("points", number + 1, len(candidates))
    whole = times[0] if times is not None else None if beside is None else beside.milliseconds
    return [each if whole is None else replace(each, latency_ms=whole * (each.latency or 0.0)) for each in points]


def _build_graph(session: QuantizationSession, of: Candidate) -> Graph:
    quantized = insert_qdq(of.graph, of.quantization)
    is_dynamic = session.choices.settings.dynamic
    return rounded_while_it_runs(quantized, session.choices.target) if is_dynamic else quantized


def _is_rounded(settings: Settings) -> bool:
    """Whether the runtime quantizes activations of weight-only products by default; the best preset does."""
    return settings.weights_only and settings.target == "onnxruntime" and settings.preset != "best"


def _relative_timer(session: QuantizationSession, base: Candidate) -> RelativeTimer | None:
    """Return a timer relative to the source; `None` if the target's runtime is not installed."""
    made = preparer(session.choices.target.name)
    if made is None:
        return None
    # Concatenated runs may not fit a model with batch size 1.
    return RelativeTimer(
        made, session.source or base.graph, [_timed_inputs(session, base)[0], session.judge.runs[0][0]]
    )


def _timed_again(
    session: QuantizationSession,
    base: Candidate,
    goals: Goals,
    candidates: Sequence[Candidate],
    points: Sequence[FrontPoint],
) -> list[FrontPoint]:
    """Return `points`, with another timing of those that are selected for their time.

    The fastest of many is partly so by chance: a point that a latency goal selects gets the longer of both times.
    Points near the knee are timed until the knee is certain, each time in a new session, whose memory layout matters,
    too.
    """
    found = list(points)
    if goals.latency is None and (goals.are_any or goals.is_small):
        return found
    beside = _relative_timer(session, base)
    if beside is None:
        return found

    def timed(place: int) -> float:
        each = candidates[place]
        return beside.relative_time(to_export_form(_build_graph(session, each), session.choices.settings))

    def set_time(place: int, part: float) -> None:
        found[place] = replace(found[place], latency=part, latency_ms=beside.milliseconds * part)

    if goals.latency is None:
        for place, part in timed_until_sure(points, timed).items():
            set_time(place, part)
        return found
    seen: set[int] = set()
    while (place := found.index(goals.select_point(found))) not in seen:
        seen.add(place)
        part = timed(place)
        if part > (found[place].latency or 0.0):
            set_time(place, part)
    return found


def _tabulated(
    session: QuantizationSession, base: Candidate, candidates: Sequence[Candidate], table: _TableTimes
) -> tuple[float, list[float]]:
    """Return milliseconds of a float run, and the relative time of each candidate, by the table."""
    target = session.choices.target
    every = {node.output.name for node in (*base.quantization.placement.layers, *base.quantization.placement.pointwise)}

    def cost(floating: Collection[str]) -> float:
        return cost_of(base, target, table.before, table.after, floating, table.entries)

    real = cost(every)
    whole = max(table.whole, real, 1e-9)
    return whole / 1e3, [(whole - real + cost(each.floating)) / whole for each in candidates]


def runner(graph: Graph) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a runner of `graph` for a metric."""
    made = engine.session(graph)
    return lambda inputs: dict(made.run(inputs))


def _bytes(graph: Graph) -> int:
    from graphport.formats.onnx import to_proto

    weights = sum(value.storage.nbytes for value in graph.constants if value.storage is not None and value.uses)
    return weights if weights > 1 << 30 else int(to_proto(graph).ByteSize())


def _layers(session: QuantizationSession, of: Candidate) -> dict[str, int]:
    """Count layers by precision."""
    quantization = of.quantization
    found: Counter[str] = Counter()
    for node, weight in quantization.weights.items():
        name = str(weight.qparams.dtype)
        layer = quantization.placement.layers.get(node)
        read = None if layer is None else quantization.qparams_of(layer.input)
        if session.choices.settings.weights_only or node in quantization.alone:
            name = f"{name} weights"
        elif node in quantization.placement.summing:
            name = f"{name} with real sums"
        elif read is not None and read.dtype.bits > _BYTE:
            name = f"{name}, activations {read.dtype}"
        found[name] += 1
    for weight in quantization.tables.values():
        found[f"{weight.qparams.dtype} tables"] += 1
    layers = [node for node in quantization.placement.floating if node not in quantization.alone]
    for node in layers:
        found[str(quantization.halves.get(node, DType.FLOAT32))] += 1
    return dict(found)


def _missed(goals: Goals, best: FrontPoint, metric: Any) -> Diagnostic:
    worded: Callable[[float], str] = getattr(metric, "worded", "a metric of {:g}".format)
    targets: list[str] = []
    if goals.snr is not None:
        targets.append(f"{goals.snr:g} dB")
    if goals.latency is not None:
        targets.append(f"{goals.latency:g} ms" if goals.is_absolute else f"{goals.latency:g} of the source's time")
    if goals.bytes is not None:
        targets.append(f"{goals.bytes} bytes")
    if goals.metric is not None:
        targets.append(worded(goals.metric))
    others = "" if goals.snr is None or goals.snr > best.snr_db else f" (on other samples maybe {best.least_db:.2f})"
    time = "" if best.latency is None else f", {best.latency:.3f} of the time ({best.latency_ms:.3f} ms)"
    own = "" if best.metric is None else f", {worded(best.metric)}"
    message = (
        f"the goal of {' and '.join(targets)} is not met: the nearest plan has {best.snr_db:.2f} dB{others}{time}, "
        f"{best.bytes} bytes{own}"
    )
    return Diagnostic("QUANT0022", message, None, "lower the goal, or choose another point (--point)", Severity.WARNING)
