"""`graphport quantize`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.custom_operators import custom_operator_options
from graphport.cli.options import (
    FILE,
    MODEL,
    OPSET_HELP,
    LateChoice,
    Verb,
    answered,
    extract_package_options,
    format_option,
    import_function,
    input_bindings,
    print_findings,
    print_json,
    reading_options,
    target_names,
)
from graphport.cli.render import as_json, json_text, shown
from graphport.cli.report import report_option, write_report
from graphport.cli.samples import samples_of, samples_options
from graphport.cli.usage import Choice, grouped
from graphport.cli.verification import checking_options, print_verification, verification, verified
from graphport.core.progress import stage
from graphport.core.regular_files import contents

if TYPE_CHECKING:
    from collections.abc import Generator
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
"""Options with a negative form (`--no-…`)."""
_AS_RUN = {
    "onnxruntime": "run by ONNX Runtime, which quantizes activations of these matrix products",
    "openvino": "run by OpenVINO, which rounds more than the model specifies",
}
_MIN_TURNS, _TURNS = 20, 200
"""Minimum and maximum number of alternating runs of both models."""


_PRECISION, _GOALS, _LAYERS = "Precision", "Goals", "Selection of layers"
_CALIBRATION, _RESULT, _REPORT = "Calibration", "Result", "Report"


@click.command(cls=Verb, name="quantize")
@click.argument("src", type=MODEL)
@click.argument("dst", type=FILE)
@samples_options("Samples: a .npz, a .npy, a folder of .npy or of images; not needed for weights only.")
@click.option(
    "--target",
    type=LateChoice(target_names),
    help="The runtime of the result (default: the native runtime of DST's format).",
)
@click.option("--preset", type=Choice(_PRESETS), help="Effort (default: balanced).")
@click.option("--weights-only", is_flag=True, help="Quantize weights only; activations stay float.")
@format_option
@grouped(_CALIBRATION, "--method", type=Choice(_METHODS), help="Calibration method for activation ranges.")
@grouped(_PRECISION, "--bits", type=Choice(["8", "16"]), help="Bits of activations.")
@grouped(
    _PRECISION, "--weight-bits", type=Choice(["2", "4", "8", "16"]), help="Bits of weights; 16: stored as float16."
)
@grouped(
    _PRECISION,
    "--block",
    type=click.IntRange(0),
    help="Consecutive weights that share a scale; 0: per channel (default: 32 for weights only of 2 or 4 bits).",
)
@grouped(
    _PRECISION,
    "--tables/--no-tables",
    default=None,
    help="With block-wise weight-only quantization: also quantize embeddings (default: if goals require it).",
)
@grouped(_PRECISION, "--dynamic", is_flag=True, help="Quantize activations of products at run time; needs no samples.")
@grouped(_PRECISION, "--full-integer", is_flag=True, help="Require integers from inputs to outputs (target tflite).")
@grouped(
    _PRECISION,
    "--form",
    type=Choice(["qdq", "qoperator"]),
    help="Representation of integers: QDQ (default) or QOperator.",
)
@grouped(_RESULT, "--opset", type=click.IntRange(1), metavar="N", help=OPSET_HELP)
@grouped(_RESULT, "--processor", type=Choice(_PROCESSORS), help="The processor that runs the result (default: any).")
@grouped(_GOALS, "--min-snr", type=float, metavar="DB", help="Keep layers in float until the outputs reach this SNR.")
@grouped(_GOALS, "--max-float-layers", type=click.IntRange(0), help="Maximum number of float layers for that.")
@grouped(
    _GOALS, "--max-latency", metavar="TIME", help="Goal: 0.5x of the source, or 3ms, on one thread of this machine."
)
@grouped(
    _GOALS,
    "--latency-table",
    type=click.Path(),
    metavar="FILE",
    help="Latency table of another machine, see graphport latency.",
)
@grouped(_GOALS, "--max-bytes", type=click.IntRange(1), help="Goal: bytes of the file.")
@grouped(_GOALS, "--metric", metavar="MODULE:FUNCTION", help="A user-defined metric; its argument runs a model.")
@grouped(_GOALS, "--perplexity", type=FILE, metavar="TOKENS", help="Metric: perplexity on rows of tokens (a .npy).")
@grouped(_GOALS, "--max-perplexity", type=float, metavar="X", help="Goal: maximum perplexity.")
@grouped(_GOALS, "--min-metric", type=float, metavar="X", help="Goal: minimum of the metric.")
@grouped(_GOALS, "--front", is_flag=True, help="Search the Pareto front of plans and take its knee point.")
@grouped(_GOALS, "--point", type=click.IntRange(1), metavar="K", help="Take point K of the Pareto front.")
@grouped(_LAYERS, "--dispatch", type=Choice(_DISPATCH), help="The nodes to consider.")
@grouped(_LAYERS, "--float", "float_nodes", multiple=True, metavar="NODE", help="Keep a node in float. Repeatable.")
@grouped(_LAYERS, "--quantize", "quantize_nodes", multiple=True, metavar="NODE", help="Quantize a node. Repeatable.")
@grouped(
    _LAYERS,
    "--wide",
    "wide_nodes",
    multiple=True,
    metavar="NODE",
    help="Quantize activations of a node to 16 bits. Repeatable.",
)
@grouped(
    _LAYERS,
    "--real-results/--no-real-results",
    default=None,
    help="Keep results in float that only float nodes use: more accurate, slower (default: by preset).",
)
@grouped(
    _LAYERS,
    "--cheap-layers/--no-cheap-layers",
    default=None,
    help="Keep small layers in float if that improves accuracy (default: by preset and target).",
)
@grouped(_CALIBRATION, "--no-prepare", is_flag=True, help="Skip the preparation passes.")
@grouped(_CALIBRATION, "--settings", "settings_file", type=FILE, help="A JSON file with settings; options override it.")
@grouped(_CALIBRATION, "--resume", type=FILE, metavar="FILE", help="Store statistics in this file, or resume from it.")
@grouped(
    _CALIBRATION,
    "--distributed",
    type=Choice(("ray",)),
    help="Observe samples, or round weight-only layers, on a Ray cluster.",
)
@grouped(_REPORT, "--explain", metavar="LAYER", help="Print all details of one layer.")
@grouped(_REPORT, "-v", "--verbose", is_flag=True, help="Report where every layer is computed, and why.")
@grouped(
    _REPORT, "--latency/--no-latency", default=True, show_default=True, help="Measure the run time of both models."
)
@checking_options
@report_option
@reading_options
@custom_operator_options
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
    """Quantize a model and report the accuracy loss.

    Exit code 1 if a goal is missed or the outputs are mostly noise; the model is written in any case.

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
    checking, asked = Checking(**verification(options)), extract_package_options(options)
    if resume is not None:
        refuse_path(resume)
    model = graphport.load(src, shapes=input_bindings(shapes), edition=edition, **asked)
    options["target"] = _target(options, settings, dst, format)
    refuse_destination(model.graph, dst, format, options["target"])
    if explain is not None:
        _check_layer_name(model, explain)
    source_bytes = _size(src, model)
    measure = None if metric is None else import_function(metric)
    if perplexity is not None:
        measure = graphport.perplexity(model, perplexity)
        options["min_metric"] = None if max_perplexity is None else -max_perplexity
    with _report_interrupted(resume), _progress() as on_progress:
        result = graphport.quantize(
            model,
            samples,
            settings=settings,
            on_progress=on_progress,
            statistics=resume,
            metric=measure,
            **_settings_from_options(options),
        )
    report = result.report
    if report is None:
        message = "a quantized model has no report"
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
    """Return the selected target, or the native runtime of the format of `dst`."""
    from graphport.cli.destination import default_target

    named = options["target"] or settings.get("target")
    return named or default_target(dst, format, weights_only=options["weights_only"])


def _settings_from_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings passed as options."""
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


def _check_layer_name(model: Model, name: str) -> None:
    """Refuse, before any work, to explain a name that is no node of `model` or of the prepared model.

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
        raise DiagnosticError(Diagnostic("QUANT0010", f"unknown layer {name!r}", None, remedy))


def _no_layer(report: QuantizationReport, name: str) -> Diagnostic:
    from graphport.core.diagnostics import Diagnostic

    names = ", ".join(layer.name for layer in report.layers[:10])
    return Diagnostic("QUANT0010", f"unknown layer {name!r}", None, f"layers: {names}, …")


@contextmanager
def _report_interrupted(path: Path | None) -> Generator[None]:
    """Report where statistics are stored if Ctrl-C ends the work."""
    try:
        yield
    except KeyboardInterrupt:
        if path is not None and path.exists():
            click.echo(
                f"statistics of the samples are stored in {shown(str(path))}: run the same command to resume",
                err=True,
            )
        raise


@contextmanager
def _progress() -> Generator[Progress]:
    """Report the progress of each stage."""
    with stage("quantizing") as step:
        yield step.go_on


def _size(path: Path, model: Model | None = None) -> int | None:
    """Return the bytes of a model: of its file and the files of its weights, or of all files of a folder."""
    import graphport
    from graphport.core.storage import FileStorage, MappedFile
    from graphport.ir.graph import walk

    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if not path.exists():
        return None
    files = {path.resolve(), *([path.with_suffix(".bin")] if path.suffix in _WITH_WEIGHTS_BESIDE else [])}
    if model is None and path.with_name(f"{path.name}.data").exists():
        model = graphport.load(path)
    for value in () if model is None else (value for graph in walk(model.graph) for value in graph.constants):
        stored = value.storage.file if isinstance(value.storage, FileStorage) else None
        if isinstance(stored, MappedFile):
            files.add(stored.path.resolve())
    return sum(file.stat().st_size for file in files if file.exists())


def _times(model: Model, result: QuantizedModel, samples: object | None) -> dict[str, Any] | None:
    """Run `_measured_times` within the limits for optional runs."""
    from graphport.runtimes.memory import size_of
    from graphport.runtimes.run_limits import limited

    with limited(size_of(model.graph, model.path)):
        return _measured_times(model, result, samples)


def _measured_times(model: Model, result: QuantizedModel, samples: object | None) -> dict[str, Any] | None:
    """Measure both models alternately on one thread, in milliseconds, on all runtimes; `None` if none runs both.

    The first runtime is at the top level, all of them in `runtimes`. Inputs are the first sample, or random without
    samples.
    """
    from graphport.backends import BACKENDS, is_installed
    from graphport.core.diagnostics import DiagnosticError
    from graphport.quantization.layer import is_large
    from graphport.quantization.random_inputs import random_samples
    from graphport.quantization.sizes import first_run

    # Sessions of a large model may need more memory than its quantization.
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
        sessions = [timed_session(made, name, threads=1) for made in (model, result)]
        before, after = latencies(sessions, inputs, seconds=0.5, least=_MIN_TURNS, most=_TURNS)
    except DiagnosticError:
        return None
    # Other load only adds time: the least of many alternating runs varies less than the median.
    speed_up = round(before.least / after.least, 2)
    return {"source_ms": round(before.least, 3), "target_ms": round(after.least, 3), "speed_up": speed_up}


def _slower(report: QuantizationReport, result: QuantizedModel, times: dict[str, Any] | None) -> list[Diagnostic]:
    """Warn if the target runs the result slower than the source."""
    from graphport.quantization.result_diagnostics import slower_run

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
        click.echo("noise by layer: no integer layer was measured")
    if report.floating:
        rows = [(x.name, x.operator, "; ".join(x.reasons)) for x in report.floating]
        print_table(("layer", "operator", "reason"), rows, title="layers that remain in float:")
    _print_front(report, metric)
    if report.measured is not None:
        source, result = (_measure(x, metric) for x in report.measured)
        click.echo(f"{metric}: {source} before, {result} after")
    if layer is not None:
        click.echo(json_text(layer.as_json(), indent=2))
    agreement = "" if report.agreement is None else f", top-1 agreement {100 * report.agreement:.1f} %"
    ends = report.snr_range
    others = "" if ends is None else f" (on others {ends[0]:.1f} to {ends[1]:.1f} dB)"
    count = report.held_back or report.samples
    seen = f"{count} sample{'s' * (count > 1)}" if count else "random inputs"
    part = "" if report.worst_part is None else f" in {shown(report.worst_part)}"
    if report.iterations:
        seen = f"{report.iterations} iterations with the states fed back"
    click.echo(f"written to {shown(str(target))}: {report.snr_db:.2f} dB{part} on {seen}{others}{agreement}")
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
    """Print every layer: where it runs, the rounding of its weights, the range of its input, and the reason."""
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
        headings = ("point", "SNR (on others)", "top-1 agreement", *named, "relative time", "bytes", "layers")
        print_table(headings, rows, title="Pareto front, * is written (--point K selects another):")


def _measure(number: float | None, name: str) -> str:
    """Format a metric; perplexity is stored negated."""
    return "" if number is None else f"{-number if name == 'perplexity' else number:.4f}"


def _decibels(number: float | None) -> str:
    return "" if number is None else f"{number:.1f} dB"
