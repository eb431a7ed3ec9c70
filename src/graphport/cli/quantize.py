"""`graphport quantize`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    LateChoice,
    Verb,
    answered,
    bound,
    function_named,
    packaged,
    print_findings,
    print_json,
    reading_options,
)
from graphport.cli.render import as_json, json_text, shown
from graphport.cli.report import report_option, write_report
from graphport.cli.samples import samples_of, samples_options
from graphport.cli.usage import Choice
from graphport.cli.verification import checking_options, print_verification, verification, verified
from graphport.core.opening import contents
from graphport.core.progress import stage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from graphport.api.model import Model, QuantizedModel
    from graphport.core.diagnostics import Diagnostic
    from graphport.formats.options import WriteOptions
    from graphport.quantization.report import LayerReport, QuantizationReport
    from graphport.quantization.samples import Progress

_PRESETS = ("fast", "balanced", "best")
_METHODS = ("auto", "min-max", "moving-average", "percentile", "entropy", "mse")
_PROCESSORS = ("any", "dot-products", "this")
_WITH_WEIGHTS_BESIDE = (".xml", ".param")
_DISPATCH = ("conservative", "aggressive", "all-in", "pointwise", "between-convolutions", "closure")
_EITHER = ("real_results", "cheap_layers", "tables")
"""Options of which a `no` is said, too."""
_AS_RUN = {
    "onnxruntime": "ONNX Runtime runs it, which rounds activations of such products",
    "openvino": "OpenVINO runs it here, which rounds more than the model says",
}
_TURNS = 200
"""Runs of each of two models beside each other, from which on a median is known well enough."""


def _targets() -> Iterable[str]:
    from graphport.quantization.targets import TARGETS

    return TARGETS


@click.command(cls=Verb, name="quantize")
@click.argument("src", type=MODEL)
@click.argument("dst", type=FILE)
@samples_options("Samples: a .npz, a .npy, a folder of .npy or of pictures; not needed for weights only.")
@click.option(
    "--target", type=LateChoice(_targets), help="What is to run the result (default: the runtime of DST's format)."
)
@click.option("--preset", type=Choice(_PRESETS), help="How much work is put in (default: balanced).")
@click.option("--method", type=Choice(_METHODS), help="How ranges of activations are chosen.")
@click.option("--bits", type=Choice(["8", "16"]), help="Bits of activations.")
@click.option("--weight-bits", type=Choice(["2", "4", "8", "16"]), help="Bits of weights; 16: stored as halves.")
@click.option("--block", type=click.IntRange(0), help="Entries of a weight that share a scale; 0 for a channel.")
@click.option(
    "--tables/--no-tables",
    default=None,
    help="With weights alone in blocks: store embeddings in codes, too (default: as goals ask for it).",
)
@click.option("--weights-only", is_flag=True, help="Quantize weights, leave activations floating.")
@click.option("--dynamic", is_flag=True, help="Round activations of products while they run; no samples needed.")
@click.option("--full-integer", is_flag=True, help="Integers from inputs to outputs, or refuse (target tflite).")
@click.option("--form", type=Choice(["qdq", "qoperator"]), help="Integers by roundings (default), or operators.")
@click.option(
    "--opset", type=click.IntRange(1), metavar="N", help="The opset of ONNX to write (default: the source's)."
)
@click.option("--processor", type=Choice(_PROCESSORS), help="Where the result must be right (default: any).")
@click.option("--min-snr", type=float, metavar="DB", help="Keep layers floating until the outputs reach this.")
@click.option("--max-float-layers", type=click.IntRange(0), help="How many layers may stay floating for that.")
@click.option("--max-latency", metavar="TIME", help="Goal: 0.5x beside the source, or 3ms, on one thread here.")
@click.option("--latency-table", type=click.Path(), metavar="FILE", help="Times of layers elsewhere, of latency.")
@click.option("--max-bytes", type=click.IntRange(1), help="Goal: bytes of the file.")
@click.option("--metric", metavar="MODULE:FUNCTION", help="A measure of your own: takes what runs a model.")
@click.option("--perplexity", type=FILE, metavar="TOKENS", help="A measure: perplexity on rows of tokens, a .npy.")
@click.option("--max-perplexity", type=float, metavar="X", help="Goal: what that is at most.")
@click.option("--min-metric", type=float, metavar="X", help="Goal: what that gives at least.")
@click.option("--front", is_flag=True, help="Find the front of plans, and take its knee.")
@click.option("--point", type=click.IntRange(1), metavar="K", help="Take the point K of the front.")
@click.option("--dispatch", type=Choice(_DISPATCH), help="Which nodes are candidates.")
@click.option("--float", "float_nodes", multiple=True, metavar="NODE", help="Leave a node floating. Repeatable.")
@click.option("--quantize", "quantize_nodes", multiple=True, metavar="NODE", help="Quantize a node. Repeatable.")
@click.option("--wide", "wide_nodes", multiple=True, metavar="NODE", help="Activations of 16 bits. Repeatable.")
@click.option(
    "--real-results/--no-real-results",
    default=None,
    help="Leave results real that only real nodes read: less noise, slower (default: by the preset).",
)
@click.option(
    "--cheap-layers/--no-cheap-layers",
    default=None,
    help="Leave layers with few products real where that lowers the noise (default: by preset and target).",
)
@click.option("--no-prepare", is_flag=True, help="Take the model as it is.")
@click.option("--settings", "settings_file", type=FILE, help="A JSON file of settings; options come on top.")
@click.option("--resume", type=FILE, metavar="FILE", help="Keep statistics here, or go on from those that are there.")
@click.option(
    "--distributed", type=Choice(("ray",)), help="Observe samples, or round layers of weights alone, on a Ray cluster."
)
@click.option("--explain", metavar="LAYER", help="Tell all about one layer.")
@click.option("-v", "--verbose", is_flag=True, help="Tell of every layer where it is computed, and why.")
@click.option("--latency/--no-latency", default=True, show_default=True, help="Time both models.")
@click.option("--to", "format", metavar="FORMAT", help="Format of DST, if its name does not say it.")
@checking_options
@report_option
@reading_options
@answered
def verb(
    src: Path,
    dst: Path,
    calibration: Path | None,
    settings_file: Path | None,
    resume: Path | None,
    explain: str | None,
    verbose: bool,
    latency: bool,
    opset: int | None,
    metric: str | None,
    perplexity: Path | None,
    max_perplexity: float | None,
    page: Path | None,
    format: str | None,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Round a model to integers, and tell how good it still is.

    Exit code 1 if a goal is not reached, or the outputs are mostly noise; the model is written all the same.

    \b
    Examples:
      graphport quantize net.onnx net.int8.onnx --calibration samples.npz
      graphport quantize net.onnx net.int8.onnx --calibration samples/ --preset best --min-snr 30
      graphport quantize net.onnx net.int8.onnx --calibration photos/ --image-size 224 --mean 0.45 --std 0.225
      graphport quantize net.onnx net.int4.onnx --weights-only --weight-bits 4 --block 32
    """
    import graphport
    from graphport.api.proven_write import Checking, save_proven
    from graphport.api.report import Findings
    from graphport.cli.destination import refuse_destination
    from graphport.quantization.sizes import first_run
    from graphport.quantization.statistics_file import refuse_path

    samples = samples_of(calibration, options)
    settings = {} if settings_file is None else _settings(settings_file)
    checking, asked = Checking(**verification(options)), packaged(options)
    if resume is not None:
        refuse_path(resume)
    model = graphport.load(src, shapes=bound(shapes), edition=edition, **asked)
    options["target"] = _target(options, settings, dst, format)
    refuse_destination(model.graph, dst, format, options["target"])
    if explain is not None:
        _refuse_layer(model, explain)
    source_bytes = _size(src)
    measure = None if metric is None else function_named(metric)
    if perplexity is not None:
        measure = graphport.perplexity(model, perplexity)
        options["min_metric"] = None if max_perplexity is None else -max_perplexity
    with _kept(resume), _progress() as on_progress:
        result = graphport.quantize(
            model,
            samples,
            settings=settings,
            on_progress=on_progress,
            statistics=resume,
            metric=measure,
            **_given(options),
        )
    report = result.report
    if report is None:
        message = "a quantized model came without its report"
        raise RuntimeError(message)
    writer: WriteOptions = {} if opset is None else {"opset": opset}
    became = save_proven(result, dst, format=format, checking=checking, calibration=samples, **writer)
    layer = None if explain is None else report.explain(explain)
    unknown = [] if explain is None or layer is not None else [_no_layer(report, explain)]
    times = _times(model, result, samples) if latency else None
    findings = [*unknown, *model.findings, *report.findings, *became.findings, *_slower(report, result, times)]
    if page is not None:
        outcome = Findings(verb="quantize", proof=became.proof, latency=times, diagnostics=findings)
        given = None if samples is None else first_run(model.graph, samples)
        write_report(page, model, replace(result, path=dst), outcome, inputs=given)
    sizes = {"source": source_bytes, "target": None if became.written is None else _size(dst)}
    if as_json_:
        document = {"source": str(src), "target": str(dst), **report.as_json(), "bytes": sizes, "latency": times}
        document |= verified(became)
        document |= {} if layer is None else {"explained": layer.as_json()}
        print_json({**document, "diagnostics": [as_json(f) for f in findings]})
    else:
        print_findings(findings, color)
        _tell(report, dst, sizes, times, layer, "perplexity" if perplexity is not None else "metric", verbose=verbose)
        print_verification(became.proof, became.skipped, str(dst) if became.written is None else None)
    raise click.exceptions.Exit(0 if report.passed and became.passed and not unknown else 1)


def _target(options: dict[str, Any], settings: dict[str, Any], dst: Path, format: str | None) -> str:
    """The target that was named; else the runtime of the format of `dst`."""
    from graphport.cli.destination import default_target

    named = options["target"] or settings.get("target")
    return named or default_target(dst, format, weights_only=options["weights_only"])


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Settings out of options, those that were given."""
    whole = {"bits": "activation_bits", "weight_bits": "weight_bits"}
    found: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == () or (value is False and name not in _EITHER):
            continue
        match name:
            case "weight_bits" if value == "16":
                found |= {"weight_type": "float16", "weights_only": True}
            case "bits" | "weight_bits":
                found[whole[name]] = int(value)
            case "block":
                found["weight_block"] = value
            case "no_prepare":
                found["prepare"] = False
            case _:
                found[name] = value
    return found


def _settings(path: Path) -> dict[str, Any]:
    from graphport.core.diagnostics import DiagnosticError, Source, Span
    from graphport.quantization.settings import Settings

    try:
        return Settings.from_json(contents(path).decode("utf-8")).as_json()
    except DiagnosticError as error:
        span = Span(Source(str(path)))
        raise DiagnosticError(*(replace(finding, span=span) for finding in error.diagnostics)) from error


def _refuse_layer(model: Model, name: str) -> None:
    """Refuse, before any work, to explain what is no node of `model`, nor of what preparing makes of it.

    Raises:
        DiagnosticError: QUANT0010.
    """
    import graphport
    from graphport.core.diagnostics import Diagnostic, DiagnosticError
    from graphport.core.names import find_similar

    if any(node.name == name for node in model.graph):
        return
    prepared, _ = graphport.prepare(replace(model, kept=None), verify=False)
    names = [node.name for node in prepared.graph]
    if name not in names:
        close = find_similar(name, names) or names[:10]
        remedy = (
            f"did you mean {' or '.join(map(repr, close))}?"
            if find_similar(name, names)
            else f"layers: {', '.join(close)}, …"
        )
        raise DiagnosticError(Diagnostic("QUANT0010", f"there is no layer {name!r}", None, remedy))


def _no_layer(report: QuantizationReport, name: str) -> Diagnostic:
    from graphport.core.diagnostics import Diagnostic

    names = ", ".join(layer.name for layer in report.layers[:10])
    return Diagnostic("QUANT0010", f"there is no layer {name!r}", None, f"layers: {names}, …")


@contextmanager
def _kept(path: Path | None) -> Generator[None]:
    """Say what is left of the work if Ctrl-C ends it."""
    try:
        yield
    except KeyboardInterrupt:
        if path is not None and path.exists():
            click.echo(
                f"what was seen of the samples is kept in {shown(str(path))}: the same command goes on from there",
                err=True,
            )
        raise


@contextmanager
def _progress() -> Generator[Progress]:
    """Each stage of the work, for who tells of it."""
    with stage("quantizing") as step:
        yield step.go_on


def _size(path: Path) -> int | None:
    """Bytes of a file, with those of the weights beside it, or of all files of a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    files = [path, *([path.with_suffix(".bin")] if path.suffix in _WITH_WEIGHTS_BESIDE else [])]
    return sum(file.stat().st_size for file in files if file.exists()) if path.exists() else None


def _times(model: Model, result: QuantizedModel, samples: object | None) -> dict[str, Any] | None:
    """`_measured_times` within the limits of runs that nobody asked for."""
    from graphport.runtimes.memory import size_of
    from graphport.runtimes.run_limits import limited

    with limited(size_of(model.graph, model.path)):
        return _measured_times(model, result, samples)


def _measured_times(model: Model, result: QuantizedModel, samples: object | None) -> dict[str, Any] | None:
    """Milliseconds of a run of both, in turns, on every installed runtime that runs both; `None` where none does.

    The first of them stands at the top, all of them in `runtimes`. A run has the first sample, whose extents are those
    that a user has; without samples, made up inputs.
    """
    from graphport.backends import BACKENDS, is_installed
    from graphport.core.diagnostics import DiagnosticError
    from graphport.quantization.layer import is_large
    from graphport.quantization.random_inputs import random_samples
    from graphport.quantization.sizes import first_run

    # Sessions on a large model take more memory than was needed to round it.
    if is_large(model.graph):
        return None
    try:
        inputs = random_samples(model.graph)[0][0] if samples is None else first_run(model.graph, samples, 1)
    except DiagnosticError:
        return None
    names = [name for name, backend in BACKENDS.items() if backend.package != "numpy" and is_installed(name)]
    found = {name: _times_on(name, model, result, inputs) for name in names}
    runtimes = {name: times for name, times in found.items() if times is not None}
    return {**next(iter(runtimes.values())), "runtimes": runtimes} if runtimes else None


def _times_on(name: str, model: Model, result: QuantizedModel, inputs: dict[str, Any]) -> dict[str, float] | None:
    from graphport.api.run import timed_session
    from graphport.backends.latency import latencies
    from graphport.core.diagnostics import DiagnosticError

    try:
        sessions = [timed_session(made, name) for made in (model, result)]
        before, after = latencies(sessions, inputs, seconds=0.5, most=_TURNS)
    except DiagnosticError:
        return None
    speed_up = round(before.median / after.median, 2)
    return {"source_ms": round(before.median, 3), "target_ms": round(after.median, 3), "speed_up": speed_up}


def _slower(report: QuantizationReport, result: QuantizedModel, times: dict[str, Any] | None) -> list[Diagnostic]:
    """A warning where the target was timed and is slower on the result than on the source."""
    from graphport.quantization.verdict import slower_run

    found = None if times is None else times["runtimes"].get(report.settings.target)
    if found is None or any(finding.code == "QUANT0023" for finding in report.findings):
        return []
    layers = sum(layer.is_quantized for layer in report.layers), len(report.layers)
    return slower_run(report.settings, layers, result.graph, found)


def _tell(
    report: QuantizationReport,
    target: Path,
    sizes: dict[str, int | None],
    times: dict[str, Any] | None,
    layer: LayerReport | None,
    metric: str,
    *,
    verbose: bool,
) -> None:
    from graphport.cli.table import print_table

    if verbose:
        _tell_layers(report)
    print_table(
        ("step", "SNR", "kept"), [(s.name, f"{s.snr_db:.2f} dB", "yes" if s.is_kept else "no") for s in report.steps]
    )
    rows = [
        (x.name, x.operator, _decibels(x.own_db), _decibels(x.accumulated_db), "; ".join(x.reasons))
        for x in report.worst
    ]
    if rows:
        print_table(("layer", "operator", "own", "accumulated", "reasons"), rows, title="the noisiest layers:")
    else:
        click.echo("noise by layer: no layer computes on integers whose noise is measured")
    if report.floating:
        rows = [(x.name, x.operator, "; ".join(x.reasons)) for x in report.floating]
        print_table(("layer", "operator", "reason"), rows, title="layers that stay floating:")
    _print_front(report, metric)
    if report.measured is not None:
        source, result = (_measure(x, metric) for x in report.measured)
        click.echo(f"{metric}: {source} before, {result} after")
    if layer is not None:
        click.echo(json_text(layer.as_json(), indent=2))
    agreement = "" if report.agreement is None else f", the same first choice in {100 * report.agreement:.1f} %"
    ends = report.snr_range
    others = "" if ends is None else f" (on others {ends[0]:.1f} to {ends[1]:.1f} dB)"
    count = report.held_back or report.samples
    seen = f"{count} sample{'s' * (count > 1)}" if count else "inputs that were made up"
    click.echo(f"written to {shown(str(target))}: {report.snr_db:.2f} dB on {seen}{others}{agreement}")
    if report.snr_as_run_db is not None:
        click.echo(f"as {_AS_RUN[report.settings.target]}: {report.snr_as_run_db:.2f} dB")
    if None not in sizes.values():
        click.echo(f"bytes: {sizes['source']} before, {sizes['target']} after")
    runtimes: dict[str, dict[str, float]] = {} if times is None else times["runtimes"]
    for name, one in runtimes.items():
        click.echo(
            f"a run of one sample on {name}: {one['source_ms']} ms before, {one['target_ms']} ms after "
            f"({one['speed_up']}x)"
        )


def _tell_layers(report: QuantizationReport) -> None:
    """Every layer: where it is computed, how its weights were rounded, what its input is cut to, and why."""
    from graphport.cli.table import print_table

    rows = [
        (
            x.name,
            x.operator,
            "integers" if x.is_quantized else "reals",
            x.means if x.is_quantized else "",
            _decibels(x.own_db),
            _decibels(x.accumulated_db),
            "" if x.input_range is None else f"{x.input_range[0]:.4g} to {x.input_range[1]:.4g}",
            "; ".join(x.reasons),
        )
        for x in report.layers
    ]
    headings = ("layer", "operator", "on", "rounding", "own", "accumulated", "input", "reasons")
    print_table(headings, rows, title="every layer:")


def _print_front(report: QuantizationReport, metric: str) -> None:
    from graphport.cli.table import print_table

    is_measured = any(x.metric is not None for x in report.front)
    rows = [
        (
            f"{x.point}{' *' if x is report.chosen else ''}",
            f"{x.snr_db:.2f} dB" + ("" if x.snr_range is None else f" ({x.snr_range[0]:.1f} to {x.snr_range[1]:.1f})"),
            "" if x.agreement is None else f"{100 * x.agreement:.1f} %",
            *([_measure(x.metric, metric)] if is_measured else []),
            "" if x.latency is None else f"{x.latency:.3f}x ({x.latency_ms:.3f} ms)",
            str(x.bytes),
            ", ".join(f"{count} {name}" for name, count in x.layers.items()),
        )
        for x in report.front
    ]
    if rows:
        named = [metric] if is_measured else []
        headings = ("point", "SNR (on others)", "first choice", *named, "time beside source", "bytes", "layers")
        print_table(headings, rows, title="the front, * is written (--point K takes another):")


def _measure(number: float | None, name: str) -> str:
    """A measure as it is said: perplexity is minus what is to be large."""
    return "" if number is None else f"{-number if name == 'perplexity' else number:.4f}"


def _decibels(number: float | None) -> str:
    return "" if number is None else f"{number:.1f} dB"
