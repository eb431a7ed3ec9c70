"""Quantize a float graph with samples, and report the accuracy."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.ops import registry
from graphport.quantization import processor
from graphport.quantization.analyse import layer_reports
from graphport.quantization.calibration_table import ncnn_table
from graphport.quantization.candidate import Candidate
from graphport.quantization.canonicalize import canonicalize
from graphport.quantization.choices import Choices
from graphport.quantization.decompose import decompose
from graphport.quantization.distributed import layers_elsewhere
from graphport.quantization.distributed import observer as find_observer
from graphport.quantization.dynamic import rounded_while_it_runs
from graphport.quantization.engine import Judge
from graphport.quantization.export_form import to_export_form
from graphport.quantization.full_integer import full_integer
from graphport.quantization.goals import Goals, latency_goal
from graphport.quantization.half_weights import half_weights
from graphport.quantization.insert_qdq import Quantization, insert_qdq
from graphport.quantization.layer import is_large
from graphport.quantization.layerwise import bytes_per_sample
from graphport.quantization.nbits import EXACT, has_products, products_of
from graphport.quantization.optimise.costs import exact_layers
from graphport.quantization.optimise.optimise import optimised, refuse_goals, runner
from graphport.quantization.placement import Placement
from graphport.quantization.precision import enough_floating
from graphport.quantization.random_inputs import random_inputs_at, random_samples
from graphport.quantization.report import QuantizationReport, Step, worst_of
from graphport.quantization.require_layers import inner_layers, is_weighted
from graphport.quantization.result_diagnostics import check_result, slower
from graphport.quantization.samples import evenly_spaced_indices, gather
from graphport.quantization.session import QuantizationSession, fitting_batch
from graphport.quantization.shards import here
from graphport.quantization.sizes import bound, bytes_by_name
from graphport.quantization.states import nodes_of_states, pair_states, roll_out, zero_inputs
from graphport.quantization.statistics_file import refuse_path
from graphport.quantization.streamed import streamed
from graphport.quantization.survey import FEWEST, survey
from graphport.quantization.wide_activations import refuse_wide

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.formats.ncnn import Scales
    from graphport.ir.graph import Graph, Value
    from graphport.quantization.optimise.optimise import Optimum
    from graphport.quantization.samples import Progress, Samples
    from graphport.quantization.settings import Preset, Settings

_HALF = "float16"
_HELD_OUT_STRIDE = {"fast": 8, "balanced": 4, "best": 4}
"""Stride of held-out samples, if there are enough."""
_MAX_HELD_OUT = {"fast": 32, "balanced": 64, "best": 64}
_FOLLOWED = {"fast": 8, "balanced": 48, "best": 96}
"""Samples that are followed through the graph to adjust layers, or to measure their noise at least."""
_BYTE = 8
_FEW_LARGE = 2
"""Random inputs that a large model is measured with; its weights are not adjusted to them."""
_LENGTHS = (1, 128)
"""Row counts of the runs that few-bit weights are timed with."""
_MAX_DRIFT_DB = 12.0
"""Maximum decrease of the SNR in dB over iterations with states that are fed back."""
_MIN_ITERATIONS = 20
"""Minimum number of successive iterations that states are judged over, if there are twice as many samples."""
_MAX_NAMED_LAYERS = 3
"""Number of layers that a diagnostic names."""


def quantize(
    graph: Graph,
    data: object,
    settings: Settings,
    *,
    on_progress: Progress | None = None,
    statistics: Path | None = None,
    distributed: str | None = None,
    metric: Any = None,
    source: Graph | None = None,
) -> tuple[Graph, QuantizationReport, tuple[Scales, ...] | None]:
    """Return a quantized copy of `graph` and a report; for targets with a table of scales also its lines.

    Args:
        graph: canonical, prepared; not changed.
        data: see `samples.gather`.
        settings: the user's settings.
        on_progress: receives the progress.
        statistics: a file that stores the statistics of the samples; if it exists and matches model, samples and
            settings,
            samples are not run again.
        metric: a function of a model runner that returns a score; larger is better.
        distributed: `ray` to observe samples, or to quantize layers of weights only, on the machines of a Ray cluster.
        source: the graph before preparation: latencies are relative to it.

    Raises:
        DiagnosticError: QUANT0001 to QUANT0003 invalid data, QUANT0004 and QUANT0005 invalid settings, QUANT0006 the
            model is quantized already, QUANT0007 there is nothing to quantize, QUANT0009 the statistics are of another
            model, other samples or settings, QUANT0011 and QUANT0012 they cannot be observed on other machines,
            QUANT0015 the model has, or computes, NaN or infinity, QUANT0016 statistics cannot be stored there.
    """
    settings = _with_implied(settings)
    goals = _goals(settings)
    is_planned = settings.front or settings.point is not None or goals.needs_plans
    refuse_goals(goals, settings)
    if goals.metric is not None and metric is None:
        message = f"a goal of {goals.metric:g} is set for the metric, but no metric is defined"
        raise DiagnosticError(
            Diagnostic("QUANT0004", message, None, "pass --metric MODULE:FUNCTION, or metric=… in Python")
        )
    is_half = settings.weight_type == _HALF
    choices = Choices.of(_base_settings(settings) if is_planned else settings)
    # A block that the target decides; the report keeps the default where it decides none.
    settings = replace(settings, weight_block=choices.settings.weight_block or settings.weight_block)
    if statistics is not None:
        refuse_path(statistics)
    observer = here if distributed is None else find_observer(distributed)
    _refuse_quantized(graph)
    is_random = data is None
    if is_random:
        data, choices = _random_inputs(graph, choices, is_planned=is_planned)
    samples, notes = gather(graph, data), list[Diagnostic]()
    zeros = set[str]() if settings.weights_only else zero_inputs(samples)
    states = {} if settings.weights_only else pair_states(graph, zeros)
    samples, notes = roll_out(graph, samples, states, zeros)
    graph = decompose(canonicalize(graph), choices.target.decomposes if settings.full_integer else ())
    refuse_wide(graph, settings, choices.target)
    is_streamed = settings.weights_only and not (is_half or is_planned or settings.dynamic)
    is_streamed = is_streamed and is_large(graph, is_unseen=choices.is_quick)
    pairs = pair_states(graph, zeros) if states else {}
    session = _begun(graph, choices, samples, on_progress, statistics, is_streamed=is_streamed, pairs=pairs)
    session.observer, session.source = observer, source
    if is_half:
        return _in_half_precision(session, graph, settings, is_random=is_random)
    best = _rounded(session, graph, distributed if settings.weights_only else None, is_streamed=is_streamed)
    if states:
        session, best = _without_drift(session, best, pairs)
    asked = Choices.of(replace(settings, min_snr=None))
    optimum = session.timed("points", optimised, session, best, goals, metric, asked) if is_planned else None
    if optimum is not None:
        best = session.followed_again(optimum.candidate, best)
    elif settings.min_snr is not None and not is_streamed:
        best = session.followed_again(
            session.timed("precision", enough_floating, session, best, settings.min_snr, settings.max_float_layers),
            best,
        )
    beside = ncnn_table(best.quantization) if choices.target.is_beside else None
    made = _inserted(session, best)
    report = _report(session, best, [*session.findings, *notes, *_notes(graph)], settings, optimum, is_random=is_random)
    exact = () if is_streamed else _exact(made, settings)
    level = EXACT if exact and len(exact) == len(products_of(made)) else None
    as_run = None if is_streamed else _as_run(session, made, exact)
    measured = None if metric is None or is_planned else (float(metric(runner(graph))), float(metric(runner(made))))
    details = {"accuracy_level": level, "exact_layers": exact, "snr_as_run_db": as_run, "measured": measured}
    return made, replace(report, **details), beside


def _inserted(session: QuantizationSession, best: Candidate) -> Graph:
    """Return the graph of `best` with its quantization."""
    settings, made = session.choices.settings, insert_qdq(best.graph, best.quantization)
    if settings.dynamic:
        made = rounded_while_it_runs(made, session.choices.target)
        best.noise = session.judge.noise(to_export_form(made, settings))
        session.steps.append(Step("quantize at run time", best.noise.snr, is_kept=True))
    if settings.full_integer:
        full_integer(made)
    return made


def _with_implied(settings: Settings) -> Settings:
    """Return `settings` with implied settings."""
    if settings.dynamic:
        settings = replace(settings, weights_only=True)
    return replace(settings, cheap_layers=False, real_results=False) if settings.full_integer else settings


def _without_drift(
    session: QuantizationSession, best: Candidate, pairs: Mapping[Value, Value]
) -> tuple[QuantizationSession, Candidate]:
    """Keep the layers that compute states in float if quantization errors accumulate.

    If no other layer can be quantized, warn with the SNR after several iterations.
    """
    graph, settings = session.given or best.graph, session.choices.settings
    after = session.snr(best)
    before = session.judge.noise(insert_qdq(best.graph, best.quantization), feeds_back=False).snr
    if after > before - _MAX_DRIFT_DB:
        return session, best
    loss = f"SNR {before:.1f} dB after one iteration, {after:.1f} dB over {len(session.judge.runs)}"
    names = nodes_of_states(graph, pairs)
    others = [node for node in graph if is_weighted(node) and node.results[0].name not in names]
    if settings.full_integer or not others:
        message = f"quantization errors of states accumulate: {loss}"
        remedy = "remove 'full_integer', or use 16-bit activations (--bits 16)"
        session.findings.append(Diagnostic("QUANT0033", message, None, remedy, Severity.WARNING))
        return session, best
    again = _begun(graph, session.choices, session.samples, session.on_progress, None, pairs=pairs)
    again.observer, again.source = session.observer, session.source
    again.kept = dict.fromkeys(names, f"it computes a state whose errors accumulate: {loss}")
    message = f"{len(names)} layers that compute states remain in float, because errors accumulate: {loss}"
    again.findings.append(Diagnostic("QUANT0034", message, None, None, Severity.NOTE))
    return again, _rounded(again, graph, None, is_streamed=False)


def _rounded(session: QuantizationSession, graph: Graph, distributed: str | None, *, is_streamed: bool) -> Candidate:
    """Return the best candidate for `graph`, whose layers are quantized here or elsewhere."""
    with nullcontext() if distributed is None else layers_elsewhere(distributed) as session.elsewhere:
        best = streamed(session, graph) if is_streamed else session.run(graph)
    session.elsewhere = None
    return best


def _in_half_precision(
    session: QuantizationSession, graph: Graph, settings: Settings, *, is_random: bool
) -> tuple[Graph, QuantizationReport, None]:
    """Return `graph` with float16 weights, and its noise."""
    made = half_weights(graph)
    best = Candidate(graph, Quantization(Placement()), {}, noise=session.judge.noise(made))
    session.steps.append(Step("halves", best.noise.snr if best.noise else 0.0, is_kept=True))
    return made, _report(session, best, [*session.findings], settings, None, is_random=is_random), None


def _begun(
    graph: Graph,
    choices: Choices,
    samples: Samples,
    on_progress: Progress | None,
    statistics: Path | None,
    *,
    is_streamed: bool = False,
    pairs: Mapping[Value, Value] | None = None,
) -> QuantizationSession:
    """Survey the samples and divide them: some are held out, some of the others are followed through the graph.

    With states in `pairs`, the last samples are held out: they are judged as successive iterations.
    """
    settings = choices.settings
    held_back = _held_out(samples.count, settings.preset)
    fed = {value.name: output.name for value, output in (pairs or {}).items()}
    if fed and held_back:
        count = max(len(held_back), min(_MIN_ITERATIONS, samples.count // 2))
        held_back = frozenset(range(samples.count - count, samples.count))
    kept = sorted(set(range(samples.count)) - held_back) or list(range(samples.count))
    sized = bound(graph, samples)
    each = bytes_per_sample(sized)
    wanted = _followed(choices, len(kept), each)
    followed = (
        frozenset(kept[place] for place in evenly_spaced_indices(len(kept), wanted)) if wanted else frozenset[int]()
    )
    judging = held_back or evenly_spaced_indices(samples.count, _MAX_HELD_OUT[settings.preset])
    seen = survey(samples, judging | followed, on_progress)
    batch = fitting_batch(settings, each)
    judged = samples.with_samples([seen.taken[number] for number in sorted(judging)])
    optimize = not choices.target.is_simulated
    judge = (
        # The whole model is not run.
        Judge(list(judged.runs(batch)), [], settings.threads, optimize)
        if is_streamed
        else Judge.of(graph, judged, 1 if fed else batch, threads=settings.threads, optimize=optimize, fed=fed)
    )
    chosen = samples.with_samples([seen.taken[number] for number in sorted(followed)])
    runs = list(chosen.runs(batch)) if followed else []
    sizes = {} if sized is graph else bytes_by_name(sized)
    return QuantizationSession(
        choices,
        samples,
        judge,
        held_back,
        runs,
        on_progress,
        statistics,
        findings=list(seen.findings),
        sizes=sizes,
        sample_bytes=each,
    )


def _report(
    session: QuantizationSession,
    best: Candidate,
    findings: list[Diagnostic],
    settings: Settings,
    optimum: Optimum | None,
    *,
    is_random: bool,
) -> QuantizationReport:
    follower = best.follower
    noise = best.noise or session.measure(best)
    layers = layer_reports(
        best.quantization,
        best.states,
        {} if follower is None else follower.noise,
        {} if follower is None else follower.accumulated,
    )
    noisiest = [layer.name for layer in worst_of(layers)][:_MAX_NAMED_LAYERS]
    if optimum is None:
        on_progress = check_result(settings, best.quantization, noise, noisiest)
        met = None if settings.min_snr is None else noise.snr - noise.margin >= settings.min_snr
    else:
        on_progress = [
            *check_result(replace(settings, min_snr=None), best.quantization, noise, noisiest),
            *slower(optimum.chosen, optimum.front, settings.target),
            *optimum.findings,
        ]
        met = optimum.goal_met
    return QuantizationReport(
        settings,
        0 if is_random else session.samples.count,
        0 if is_random else len(session.held_back),
        noise.snr,
        noise.agreement,
        layers,
        tuple(session.steps),
        (*findings, *on_progress),
        met,
        processor.description(),
        session.seconds,
        None if is_random else noise.snr_range,
        None if is_random else noise.agreement_range,
        () if optimum is None else optimum.front,
        None if optimum is None else optimum.chosen,
        worst_part=noise.worst if len(noise.signal) > 1 else None,
        iterations=len(session.judge.runs) if session.judge.fed else 0,
    )


def _random_inputs(graph: Graph, choices: Choices, *, is_planned: bool) -> tuple[list[dict[str, Any]], Choices]:
    """Return random inputs to measure with if there are no samples, and `choices` without what they cannot decide.

    Weights of a large model are not adjusted to them, unless the preset is `best`.

    Raises:
        DiagnosticError: QUANT0001 activations cannot be quantized without samples.
    """
    settings = choices.settings
    if not settings.weights_only:
        message = "without samples the ranges of activations are unknown, and only weights can be quantized"
        remedy = "pass samples (--calibration), or do without: --weights-only (float activations), --dynamic"
        raise DiagnosticError(Diagnostic("QUANT0001", message, None, remedy))
    inputs, is_likely = random_samples(graph)
    may_adjust = settings.preset == "best" or settings.dynamic or is_planned
    if not may_adjust and is_large(graph, is_unseen=True):
        return inputs[:_FEW_LARGE], replace(_unseen(choices), is_quick=True)
    return inputs, replace(choices, corrects=False) if is_likely else _unseen(choices)


def _exact(graph: Graph, settings: Settings) -> tuple[str, ...]:
    """Return the products that the file marks as exact: all for preset `best`, else a compromise.

    The compromise is between runs of one row and of many, with and without samples.
    """
    is_asked = settings.weights_only and settings.weight_block and settings.target == "onnxruntime"
    if not is_asked or settings.weight_bits >= _BYTE:
        return ()
    if settings.preset == "best":
        return tuple(products_of(graph))
    try:
        runs = [random_inputs_at(graph, length) for length in _LENGTHS]
    except DiagnosticError:
        # Only samples are valid inputs of the model.
        return ()
    return exact_layers(graph, runs)


def _as_run(session: QuantizationSession, graph: Graph, exact: tuple[str, ...]) -> float | None:
    """Return the SNR with the default settings of the target's runtime; `None` if unknown or equal.

    ONNX Runtime quantizes activations of weight-only products, except those that `exact` names. OpenVINO does so as
    well, and computes in bfloat16 if this processor supports it.
    """
    settings = session.choices.settings
    if settings.target == "openvino":
        noise = session.judge.noise_by_itself(to_export_form(graph, settings), "openvino")
        return None if noise is None else noise.snr
    if settings.target != "onnxruntime" or not settings.weights_only or not has_products(graph):
        return None
    return session.judge.noise(to_export_form(graph, settings, exact), as_run=True).snr


def _unseen(choices: Choices) -> Choices:
    """Return `choices` without all that depends on inputs."""
    return replace(choices, rounds=False, corrects=False, searches=False, refines=False)


def _goals(settings: Settings) -> Goals:
    latency, is_absolute = latency_goal(settings.max_latency)
    asked = (settings.min_snr, latency, is_absolute, settings.max_bytes, settings.min_metric, settings.point)
    return Goals(*asked, is_small=settings.weights_only)


def _base_settings(settings: Settings) -> Settings:
    """Return `settings` for the base of plans: as many integer layers as possible, unless set otherwise."""
    cheap = False if settings.cheap_layers is None else settings.cheap_layers
    real = False if settings.real_results is None else settings.real_results
    return replace(settings, cheap_layers=cheap, real_results=real, min_snr=None)


def _held_out(count: int, preset: Preset) -> frozenset[int]:
    """Return the held-out samples; empty if there are too few."""
    return (
        evenly_spaced_indices(count, min(count // _HELD_OUT_STRIDE[preset], _MAX_HELD_OUT[preset]))
        if count >= FEWEST
        else frozenset()
    )


def _followed(choices: Choices, count: int, each: int) -> int:
    most = _FOLLOWED[choices.settings.preset]
    if choices.settings.round or choices.settings.correct or choices.settings.search or choices.equalizes:
        most = max(most, _FOLLOWED["balanced"])
    # Float and quantized values are held, and intermediate results.
    fitting = choices.settings.memory // (3 * each)
    return min(count, most, max(fitting, 1)) if most else 0


def _refuse_quantized(graph: Graph) -> None:
    op_defs = registry.op_defs()
    known = [(node, op_defs.get(node.op_type)) for node in graph if not node.dialect]
    found = [node for node, op_def in known if op_def is not None and op_def.quantizes]
    if found:
        message = (
            f"the model is already quantized: it has {len(found)} quantized nodes, for example {found[0].op} "
            f"{found[0].output.name}"
        )
        raise DiagnosticError(Diagnostic("QUANT0006", message, found[0].origin, "quantize the float model"))


def _notes(graph: Graph) -> list[Diagnostic]:
    inside = inner_layers(graph)
    if not inside:
        return []
    message = f"{inside} layers in bodies of If, Loop or Scan remain float"
    return [Diagnostic("QUANT0008", message, None, None, Severity.NOTE)]
