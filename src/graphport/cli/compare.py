"""`graphport compare`."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.click_types import ParamType
from graphport.cli.custom_operators import custom_operator_options
from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    backend_option,
    import_function,
    input_bindings,
    print_json,
    reading_options,
)
from graphport.cli.render import shown
from graphport.cli.report import report_option, write_report
from graphport.cli.usage import Choice
from graphport.core.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.api.compare import FoundDifference
    from graphport.api.model import Model
    from graphport.comparison import Comparison, Difference
    from graphport.comparison.limits import Limits

_SORTS = ("order", "name", "max-abs", "snr")


class _LimitOption(ParamType):
    """`1e-3`, or `NAME=1e-3` for one value."""

    name = "[NAME=]X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """Parse the name (empty for all values) and the number."""
        name, _, text = str(value).rpartition("=")
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is neither a number nor NAME=NUMBER", param, ctx)
        return name, number


@click.command(cls=Verb, name="compare")
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@click.option(
    "--inputs", "inputs", type=MODEL, help="An .npz file with an array for each input of A; default: random values."
)
@click.option("--all", "every_value", is_flag=True, help="Compare all values that both models compute under one name.")
@click.option("--find", is_flag=True, help="If the outputs differ, find the first node of B that causes it.")
@click.option("--out", type=FILE, default=Path("difference"), metavar="FOLDER", help="Output folder of --find.")
@click.option("--rtol", type=_LimitOption(), multiple=True, help="Tolerance relative to max|a|. Repeatable.")
@click.option("--atol", type=_LimitOption(), multiple=True, help="Absolute tolerance. Repeatable.")
@click.option("--min-snr", type=_LimitOption(), multiple=True, help="Minimum SNR in dB. Repeatable.")
@click.option("--metric", metavar="MODULE:FUNCTION", help="A user-defined metric of both arrays.")
@click.option("--min-metric", type=_LimitOption(), multiple=True, help="Minimum of that metric. Repeatable.")
@click.option("--sort", type=Choice(_SORTS), default="order", show_default=True, help="Order of the rows.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of rows.")
@report_option
@backend_option
@custom_operator_options
@reading_options
@answered
def verb(
    a: Path,
    b: Path,
    inputs: Path | None,
    every_value: bool,
    find: bool,
    out: Path,
    sort: str,
    limit: int | None,
    page: Path | None,
    backend: str,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    color: str,
    as_json_: bool,
    **limits: Any,
) -> None:
    """Run two models on the same inputs and compare their outputs.

    Values are equal if |a - b| <= rtol * max|a| + atol (by default 1e-4 and 1e-6) and type, shape and NaN positions
    agree; --min-snr and --min-metric replace this criterion for all values or for one (--min-snr y=40). Exit code 0 if
    all outputs are equal, 1 otherwise.

    --find reports the first node of B whose result differs for the operands computed by A, and writes minimal submodels
    of both that reproduce the difference, with their inputs, to a folder.

    \b
    Examples:
      graphport compare net.onnx net.nnef.tgz
      graphport compare net.onnx small.onnx --inputs in.npz --all --sort snr --limit 20
      graphport compare net.onnx net.xml --find --min-snr 60
    """
    del color
    import graphport
    from graphport.api.report import Findings
    from graphport.api.run import first_run
    from graphport.cli import arrays
    from graphport.comparison import Comparison
    from graphport.comparison import Difference as Differs
    from graphport.core.diagnostics import DiagnosticError
    from graphport.runtimes.run_limits import limits_runs

    stated = _limits(**limits)
    asked: dict[str, Any] = {"shapes": input_bindings(shapes), "program": program, "states": states}
    first, second = graphport.load(a, edition=edition, **asked), graphport.load(b, **asked)
    _check_limit_names(stated, (first, second))
    given = arrays.inputs_of(first, inputs) if inputs is not None else None
    if given is None and find:
        given = limits_runs(first_run)(first, backend)[0]
    try:
        result = graphport.compare(first, second, given, backend=backend, every_value=every_value, limits=stated)
    except DiagnosticError as error:
        if not find:
            raise
        reason = error.diagnostics[0].message
        result = Comparison((Differs(next(iter(first.outputs), ""), "", passed=False, reason=reason),))
    found = None
    if find and not result.passed:
        found = graphport.find_difference(first, second, given, limits=stated, backend=backend)
    files = {} if found is None else _write(found, out)
    command = _command(files, limits, backend)
    write_report(page, first, second, Findings(verb="compare"), inputs=given, backend=backend)
    if as_json_:
        print_json(_document(result, found, files, command, is_asked=find))
    else:
        _tell(result, sort, limit, every_value=every_value)
        if find:
            _tell_found(found, files, command, has_passed=result.passed)
    raise click.exceptions.Exit(0 if result.passed else 1)


def _limits(
    rtol: Iterable[tuple[str, float]],
    atol: Iterable[tuple[str, float]],
    min_snr: Iterable[tuple[str, float]],
    metric: str | None,
    min_metric: Iterable[tuple[str, float]],
) -> Limits:
    from graphport.comparison.limits import Limits

    limits = dict(min_metric)
    if limits and metric is None:
        message = "--min-metric requires --metric MODULE:FUNCTION"
        raise click.UsageError(message)
    asked = {
        "relative": dict(rtol),
        "absolute": dict(atol),
        "least_snr": dict(min_snr),
        "least_metric": limits,
    }
    everywhere = Limits(metric=None if metric is None else import_function(metric))
    everywhere = replace(everywhere, **{field: given[""] for field, given in asked.items() if "" in given})
    names = {name for given in asked.values() for name in given if name}
    own = {
        name: replace(everywhere, **{field: given[name] for field, given in asked.items() if name in given})
        for name in names
    }
    return replace(everywhere, of=own)


def _check_limit_names(limits: Limits, models: Iterable[Model]) -> None:
    """Check that limits name values of the models.

    Raises:
        UsageError: a value does not exist.
    """
    names = {value.name for model in models for value in model.graph.values()}
    unknown = sorted(limits.of.keys() - names)
    if unknown:
        message = f"the models have no value {', '.join(unknown)}{did_you_mean(unknown[0], names, 'values')}"
        raise click.UsageError(message)


def _write(found: FoundDifference, folder: Path) -> dict[str, Path]:
    """Write two small models and their inputs. Return their paths."""
    import graphport
    from graphport.cli import arrays
    from graphport.core.diagnostics import DiagnosticError

    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    for side, model in (("a", found.a), ("b", found.b)):
        try:
            files[side] = folder / f"{side}.onnx"
            graphport.save(model, files[side])
        except DiagnosticError:
            # Dialects without an ONNX form are written to graphport's archive format.
            files[side] = folder / f"{side}.graphport"
            graphport.save(model, files[side])
    files["inputs"] = folder / "inputs.npz"
    arrays.write(files["inputs"], found.inputs)
    return files


def _command(files: dict[str, Path], limits: dict[str, Any], backend: str) -> str | None:
    if not files:
        return None
    words = ["graphport", "compare", str(files["a"]), str(files["b"]), "--inputs", str(files["inputs"])]
    for option, given in limits.items():
        texts = [given] if isinstance(given, str) else [_format_limits(*limit) for limit in given or ()]
        for text in texts:
            words += [f"--{option.replace('_', '-')}", text]
    if backend != "auto":
        words += ["--backend", backend]
    return shlex.join(words)


def _format_limits(name: str, number: float) -> str:
    return f"{name}={number:g}" if name else f"{number:g}"


def _document(
    result: Comparison, found: FoundDifference | None, files: dict[str, Path], command: str | None, *, is_asked: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "passed": result.passed,
        "outputs": [difference.as_json() for difference in result.outputs],
        "values": [difference.as_json() for difference in result.values],
        "first": None if result.first_difference is None else result.first_difference.name,
        "notes": list(result.notes),
    }
    if not is_asked:
        return document
    if found is None:
        return {**document, "found": None}
    span = found.origin
    return {
        **document,
        "found": {
            "node": found.node,
            "operator": found.operator,
            "value": found.value,
            "sentence": found.sentence,
            "is_beyond_tolerance": found.is_beyond,
            "difference": found.difference.as_json(),
            "nodes": {"a": len(found.a.graph), "b": len(found.b.graph)},
            "file": None if span is None else span.file,
            "line": None if span is None else span.line,
            "files": {side: str(path) for side, path in files.items()},
            "command": command,
            "notes": list(found.notes),
        },
    }


def _tell(result: Comparison, sort: str, limit: int | None, *, every_value: bool) -> None:
    from graphport.cli.table import print_table

    for note in result.notes:
        click.echo(f"note: {shown(str(note))}")
    names = list(result.values if every_value else result.outputs)
    rows = _sorted(names, sort)[:limit]
    has_metric = any(each.metric is not None for each in rows)
    headings = (*HEADINGS[:-1], "metric", "") if has_metric else HEADINGS
    print_table(headings, [_row(each, has_metric=has_metric) for each in rows])
    if len(rows) < len(names):
        click.echo(f"{len(names) - len(rows)} more rows are not shown")
    if every_value:
        place = None if result.first_difference is None else shown(result.first_difference.name)
        click.echo("no value differs" if place is None else f"the first value that differs is {place}")
    click.echo("equal within tolerance" if result.passed else "the outputs differ")


def _sorted(differences: list[Difference], sort: str) -> list[Difference]:
    """Sort by error, largest first, unless the order is by name or by execution."""
    if sort == "name":
        return sorted(differences, key=lambda each: each.name)
    if sort == "max-abs":
        return sorted(differences, key=lambda each: -math.inf if each.max_abs is None else -each.max_abs)
    if sort == "snr":
        return sorted(differences, key=lambda each: -math.inf if each.snr_db is None else each.snr_db)
    return differences


def _tell_found(
    found: FoundDifference | None, files: dict[str, Path], command: str | None, *, has_passed: bool
) -> None:
    if found is None:
        click.echo("there is nothing to find" if has_passed else "no value paired by name differs for equal operands")
        return
    for note in found.notes:
        click.echo(f"note: {shown(note)}")
    click.echo(shown(found.sentence))
    if found.origin is not None:
        click.echo(f"  at {shown(str(found.origin))}")
    counts = f"{len(found.a.graph)} and {len(found.b.graph)} nodes"
    click.echo(f"written to {shown(str(files['a']))}, {shown(str(files['b']))} ({counts}) and {files['inputs'].name}")
    click.echo(f"again: {shown(str(command))}")


HEADINGS = ("value", "max |a-b|", "mean |a-b|", "SNR dB", "cosine", "")


def _row(difference: Difference, *, has_metric: bool) -> tuple[str, ...]:
    cells = row(difference)
    number = "" if difference.metric is None else f"{difference.metric:.6g}"
    return (*cells[:-1], number, cells[-1]) if has_metric else cells


def row(difference: Difference) -> tuple[str, ...]:
    """Format a difference as cells under `HEADINGS`."""
    name = difference.name if difference.other in ("", difference.name) else f"{difference.name} / {difference.other}"
    verdict = "equal" if difference.passed else difference.reason or f"differs first at {list(difference.first or ())}"
    numbers = (difference.max_abs, difference.mean_abs, difference.snr_db, difference.cosine)
    return (name, *("" if number is None else f"{number:.6g}" for number in numbers), verdict)
