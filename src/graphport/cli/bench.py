"""`graphport bench`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    MODEL,
    Verb,
    answered,
    input_bindings,
    print_findings,
    print_json,
    reading_options,
    threads_option,
)
from graphport.cli.render import as_json, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from graphport.api.model import Model
    from graphport.backends.latency import Latency
    from graphport.core.diagnostics import Diagnostic
    from graphport.formats.onnx.runtime import Kernel

_MOST_NODES = 20


@click.command(cls=Verb, name="bench")
@click.argument("models", type=MODEL, nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="BACKEND",
    help="A runtime to measure. Repeatable; default: all that can run the models.",
)
@click.option("--inputs", type=MODEL, help="An .npz file with an array for each input; default: random values.")
@click.option(
    "--seconds", type=click.FloatRange(0.01, 3600), default=1.0, show_default=True, help="Measurement time per runtime."
)
@click.option(
    "--nodes", is_flag=True, help="Report the time of each node on one thread, if the runtime has a profiler."
)
@threads_option
@reading_options
@answered
def verb(
    models: tuple[Path, ...],
    backends: tuple[str, ...],
    inputs: Path | None,
    seconds: float,
    nodes: bool,
    threads: int,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    color: str,
    as_json_: bool,
) -> None:
    """Measure the run time of models on every installed runtime, alternating between models.

    Each model runs once before the measurement. Reported are the median, the 10 % and 90 % quantiles, and the
    sequential throughput in runs per second. Exit code 1 if no runtime runs all models.

    \b
    Examples:
      graphport bench net.onnx
      graphport bench net.onnx small.onnx --threads 1 --backend onnxruntime
      graphport bench net.onnx --nodes
    """
    import graphport
    from graphport.cli import arrays
    from graphport.runtimes.memory import size_of
    from graphport.runtimes.run_limits import limited

    asked: dict[str, Any] = {"edition": edition, "shapes": input_bindings(shapes), "program": program, "states": states}
    loaded = [graphport.load(path, **asked) for path in models]
    sizes = [size_of(model.graph, model.path) or 0 for model in loaded]
    given = None if inputs is None else arrays.inputs_of(loaded[0], inputs)
    runs = _inputs(loaded, given)
    found: dict[str, list[Latency]] = {}
    failed: dict[str, list[Diagnostic]] = {}
    for name in _runtimes(backends):
        try:
            with limited(sum(sizes)):
                found[name] = _measured(name, loaded, runs, seconds, threads)
        except graphport.DiagnosticError as error:
            failed[name] = error.diagnostics
    with limited(sum(sizes)):
        kernels = [_kernels(model, run) for model, run in zip(loaded, runs, strict=True)] if nodes else []
    if as_json_:
        print_json(_document(models, found, failed, kernels, threads))
    else:
        if not found or backends:
            print_findings([finding for each in failed.values() for finding in each], color)
        _tell(models, found, failed, kernels)
    raise click.exceptions.Exit(0 if found else 1)


def _runtimes(backends: Sequence[str]) -> list[str]:
    from graphport.backends import BACKENDS, is_installed

    if backends:
        return list(dict.fromkeys(backends))
    return [name for name, backend in BACKENDS.items() if backend.package != "numpy" and is_installed(name)]


def _inputs(models: Sequence[Model], given: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the inputs of each model: those of the first model by position if they match, else generated ones."""
    from graphport.core.diagnostics import DiagnosticError
    from graphport.runtimes.inputs import checked, random_inputs

    first = random_inputs(models[0].graph) if given is None else given
    found = [first]
    for model in models[1:]:
        same = dict(zip(model.inputs, (first[name] for name in models[0].inputs), strict=False))
        try:
            found.append(dict(checked(model.graph, same)))
        except DiagnosticError:
            found.append(random_inputs(model.graph))
    return found


def _measured(
    name: str, models: Sequence[Model], runs: Sequence[dict[str, Any]], seconds: float, threads: int
) -> list[Latency]:
    from graphport.api.run import timed_session
    from graphport.backends.latency import measure_interleaved

    sessions = [timed_session(model, name, threads=threads) for model in models]
    tasks = [partial(made.run, run) for made, run in zip(sessions, runs, strict=True)]
    return measure_interleaved(tasks, seconds)


def _kernels(model: Model, run: dict[str, Any]) -> list[Kernel]:
    from graphport.api.run import runnable
    from graphport.backends import is_installed
    from graphport.core.diagnostics import DiagnosticError
    from graphport.formats.onnx.runtime import kernel_times

    if not is_installed("onnxruntime"):
        return []
    try:
        return kernel_times(runnable(model), run)
    except DiagnosticError:
        return []


def _document(
    models: Sequence[Path],
    found: dict[str, list[Latency]],
    failed: dict[str, list[Diagnostic]],
    kernels: Sequence[list[Kernel]],
    threads: int,
) -> dict[str, Any]:
    return {
        "models": [str(path) for path in models],
        "threads": threads,
        "runtimes": {
            name: [
                {
                    "median_ms": each.median,
                    "least_ms": each.least,
                    "p10_ms": each.low,
                    "p90_ms": each.high,
                    "runs": each.runs,
                    "per_second": 1e3 / max(each.median, 1e-9),
                }
                for each in times
            ]
            for name, times in found.items()
        },
        "failed": {name: [as_json(finding) for finding in findings] for name, findings in failed.items()},
        "nodes": [
            [{"name": k.name, "operator": k.operator, "microseconds": k.microseconds} for k in each] for each in kernels
        ],
    }


def _tell(
    models: Sequence[Path],
    found: dict[str, list[Latency]],
    failed: dict[str, list[Diagnostic]],
    kernels: Sequence[list[Kernel]],
) -> None:
    from graphport.cli.table import print_table

    rows = [
        (
            name,
            str(path),
            f"{each.median:.3f}",
            f"{each.low:.3f} to {each.high:.3f}",
            f"{1e3 / max(each.median, 1e-9):,.1f}",
            str(each.runs),
            "" if number == 0 else f"{each.median / max(times[0].median, 1e-9):.3f}x",
        )
        for name, times in found.items()
        for number, (path, each) in enumerate(zip(models, times, strict=True))
    ]
    if rows:
        headings = ("runtime", "model", "median ms", "10 % to 90 %", "a second", "runs", "relative to the first")
        print_table(headings, rows)
    for name, findings in failed.items():
        click.echo(f"{shown(name)} does not run: {shown(findings[0].message)}")
    for path, each in zip(models, kernels, strict=False):
        total = sum(kernel.microseconds for kernel in each)
        slowest = sorted(each, key=lambda kernel: -kernel.microseconds)[:_MOST_NODES]
        cells = [
            (k.name, k.operator, f"{k.microseconds:.1f}", f"{100 * k.microseconds / max(total, 1e-9):.1f} %")
            for k in slowest
        ]
        if cells:
            title = f"{path} on onnxruntime, one thread, by the profile:"
            print_table(("node", "operator", "µs", "part"), cells, title=title)
