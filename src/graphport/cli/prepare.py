"""`graphport prepare`, and the code shared with `simplify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    color_option,
    edition_option,
    extract_package_options,
    extract_writer_options,
    findings_end,
    format_option,
    input_bindings,
    input_option,
    json_option,
    package_options,
    print_findings,
    print_json,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.report import report_option, write_report
from graphport.cli.sizes import print_beside
from graphport.cli.streams import target
from graphport.cli.usage import Choice
from graphport.cli.verification import print_verification, verification, verification_options, write_proof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from graphport.api.rewrite import RewriteReport
    from graphport.passes.driver import Outcome, PassList
    from graphport.passes.journal import Note

    Command = Callable[..., Any]


def rewriting_options(command: Command) -> Command:
    """Add the arguments and options of both commands."""
    for option in (
        json_option,
        color_option,
        package_options,
        edition_option,
        input_option,
        writer_options,
        report_option,
        verification_options,
        click.option("-v", "--verbose", is_flag=True, help="Report every change and every refusal with its reason."),
        click.option("--skip", multiple=True, metavar="PASS", help="Omit a pass. Repeatable."),
        click.option("--only", multiple=True, metavar="PASS", help="Run only this pass. Repeatable."),
        format_option,
        click.argument("dst", type=FILE),
        click.argument("src", type=MODEL),
    ):
        command = option(command)
    return command


@click.command(cls=Verb, name="prepare")
@rewriting_options
@click.option(
    "--shared",
    type=Choice(["auto", "split", "keep"]),
    default="auto",
    show_default=True,
    help="Copy shared parameters for each consumer, keep them shared, or copy up to 64 MiB.",
)
@findings_end
def verb(shared: str, **options: Any) -> None:
    """Prepare a model for quantization, and prove that it computes the same.

    Constants become parameters with one consumer each; normalizations, biases and scales are folded into weights;
    identity operators are removed. Exit code 1 if the outputs of both models differ.

    \b
    Examples:
      graphport prepare net.onnx ready.onnx
      graphport prepare net.onnx ready.onnx --skip split-parameters -v
      graphport prepare net.onnx ready.onnx --only fuse-batchnorm --no-verify
    """
    from graphport.passes.prepare import preparing

    rewrite("prepare", preparing(shared), **options)


def rewrite(
    name: str,
    passes: PassList,
    *,
    src: Path,
    dst: Path,
    format: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    verbose: bool,
    proof: Path | None,
    page: Path | None,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Run the passes of a command, write the result, and report changes and proof."""
    from graphport.api.rewrite import rewrite_file

    passes = _selected(passes, only, skip)
    asked = {"shapes": input_bindings(shapes), "edition": edition, **extract_package_options(options)}
    with target(dst, format, is_json=as_json_) as path:
        report = rewrite_file(
            src,
            path,
            passes,
            format=format,
            **verification(options),
            **asked,
            **extract_writer_options(options, path, format),
        )
        write_proof(report.proof, proof, src, report.written, **asked)
        _write_rewriting(page, src, report, name, **asked)
        _tell(report, path, color, verbose=verbose, is_json=as_json_)


def _selected(passes: PassList, only: Sequence[str], skip: Sequence[str]) -> PassList:
    """Return the selected passes; an unknown name is a usage error."""
    from graphport.passes.driver import select

    try:
        return select(passes, only, skip)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _write_rewriting(path: Path | None, source: Path, done: RewriteReport, verb: str, **asked: Any) -> None:
    """Write the report on the passes if it was requested."""
    if path is None:
        return
    from graphport.api.report import Findings

    outcome = Findings(
        verb=verb, proof=done.proof, passes=done.passes, dispatch=done.decisions, diagnostics=done.findings
    )
    write_report(path, source, done.written, outcome, **asked)


def _tell(report: RewriteReport, written_to: Path, color: str, *, verbose: bool, is_json: bool) -> None:
    """Print the result and exit with its exit code."""
    if is_json:
        print_json(_document(report, written_to, verbose=verbose))
    else:
        print_findings(report.findings, color)
        _print(report, written_to, verbose=verbose)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _document(report: RewriteReport, written_to: Path, *, verbose: bool) -> dict[str, Any]:
    from graphport.quantization.dispatch import remains
    from graphport.quantization.record import dispatch_record

    decisions = {"dispatch": dispatch_record(report.decisions)["nodes"]} if verbose else {}
    return decisions | {
        "target": str(written_to),
        "passes": [_outcome(outcome, verbose=verbose) for outcome in report.passes],
        "nodes_before": report.nodes_before,
        "nodes_after": report.nodes_after,
        "before": _statistics(report, 0),
        "after": _statistics(report, 1),
        "verdict": str(report.verdict),
        "verify": None if report.proof is None else report.proof.as_json(),
        "skipped": report.skipped,
        "written": report.written,
        "floating": [
            {"operator": op, "reason": reason, "nodes": count} for op, reason, count in remains(report.decisions)
        ],
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _statistics(report: RewriteReport, which: int) -> dict[str, Any] | None:
    """Return the statistics of the model before or after."""
    if report.sizes is None:
        return None
    found = report.sizes[which]
    macs = found.macs if found.example is None else found.example.macs
    return {
        "operators": found.operators,
        "parameters": found.parameters,
        "weight_bytes": found.weight_bytes,
        "macs": macs if isinstance(macs, int) else str(macs),
        "sizes": {} if found.example is None else found.example.sizes,
    }


def _outcome(outcome: Outcome, *, verbose: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": outcome.name, "changes": outcome.changes}
    if verbose:
        found["done"] = [{"node": note.node, "text": note.text} for note in outcome.done]
        found["left"] = [{"node": note.node, "text": note.text} for note in outcome.left]
    return found


def _print(report: RewriteReport, written_to: Path, *, verbose: bool) -> None:
    from graphport.cli.table import print_table

    rows = [
        (outcome.name, str(outcome.changes), _num_refusals(outcome)) for outcome in report.passes if outcome.changes
    ]
    if rows:
        print_table(("pass", "changes", "not changed"), rows)
        click.echo()
    else:
        click.echo("no pass made a change")
    if verbose:
        for outcome in report.passes:
            _print_notes(f"{outcome.name} did", outcome.done)
            _print_notes(f"{outcome.name} not changed", outcome.left)
        _print_floating(report)
    if report.sizes is not None:
        print_beside(*report.sizes)
        click.echo()
    if report.written is not None:
        click.echo(f"written to {shown(report.written)}")
    print_verification(report.proof, report.skipped, str(written_to) if report.written is None else None)


def _print_floating(report: RewriteReport) -> None:
    from graphport.quantization.dispatch import counts, remains

    found = ", ".join(f"{count} {place}" for place, count in counts(report.decisions).items())
    click.echo(f"nodes for quantization: {found}")
    lines = [f"  {op} ({count}): {reason}" for op, reason, count in remains(report.decisions)]
    if lines:
        click.echo("\n".join(["quantization would keep in float:", *lines]))


def _num_refusals(outcome: Outcome) -> str:
    return str(len(outcome.left)) if outcome.left else ""


def _print_notes(title: str, notes: Iterable[Note]) -> None:
    lines = [f"  {note}" for note in notes]
    if lines:
        click.echo("\n".join([f"{title}:", *lines]))
