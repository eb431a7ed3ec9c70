"""`graphport convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    batch_option,
    extract_writer_options,
    findings_of,
    input_bindings,
    opening_options,
    print_findings,
    print_json,
    states_option,
    writer_options,
)
from graphport.cli.render import as_json, note_faults, shown
from graphport.cli.report import report_option, write_report
from graphport.cli.streams import expand_patterns, target
from graphport.cli.verification import print_verification, verification, verification_options, write_proof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from graphport.api.convert import ConversionReport


def _split_paths(ctx: click.Context, param: click.Parameter, paths: tuple[str, ...]) -> tuple[list[Path], Path | None]:
    """Split the arguments into sources and DST; --out-dir replaces DST."""
    if ctx.params.get("out_dir") is not None:
        return expand_patterns(ctx, param, tuple(MODEL.convert(path, param, ctx) for path in paths)), None
    if len(paths) < 2:
        message = "Missing argument 'DST'."
        raise click.UsageError(message, ctx)
    if len(paths) > 2:
        message = f"{len(paths)} paths: several models are converted with --out-dir DIR instead of DST"
        raise click.UsageError(message, ctx)
    return [MODEL.convert(paths[0], param, ctx)], FILE.convert(paths[1], param, ctx)


@click.command(cls=Verb, name="convert")
@click.argument("paths", type=str, nargs=-1, required=True, metavar="SRC... DST", callback=_split_paths)
@click.option(
    "--to", "--layout", "--format", "format", metavar="FORMAT", help="Format of DST (default: by its file name)."
)
@click.option(
    "--out-dir",
    type=FILE,
    is_eager=True,
    metavar="DIR",
    help="Convert each SRC, or pattern such as 'models/*.onnx', into this folder, without DST.",
)
@verification_options
@report_option
@writer_options
@batch_option
@opening_options
@states_option
@click.option("-v", "--verbose", is_flag=True, help="Report the op types that each operator was converted to.")
@answered
def verb(
    paths: tuple[list[Path], Path | None],
    format: str | None,
    out_dir: Path | None,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    verbose: bool,
    color: str,
    as_json_: bool,
    proof: Path | None,
    page: Path | None,
    **options: Any,
) -> None:
    """Convert a model to another format and prove that both files compute the same.

    Both files run on the same inputs, each in its native runtime, and their outputs are compared. Exit code 1 if DST
    does not support an operator (all are reported) or the outputs differ; no file is written then. With --out-dir the
    other models are still converted.

    \b
    Examples:
      graphport convert model.nnef.tgz net.onnx
      graphport convert net.onnx model --to nnef
      graphport convert net.onnx copy.onnx --no-verify
      graphport convert net.onnx old.onnx --opset 11
      graphport convert - - --to nnef < net.onnx > net.nnef.tgz
      graphport convert a.onnx b.onnx 'models/*.onnx' --to openvino --out-dir converted
    """
    import graphport
    from graphport.api.report import Findings

    checks, bindings = verification(options), input_bindings(shapes)
    reading: dict[str, Any] = {"shapes": bindings, "edition": edition, "program": program, "states": states}

    def convert(source: Path, path: Path) -> ConversionReport:
        writer = extract_writer_options(options, path, format)
        return graphport.convert(source, path, format=format, **checks, **reading, **writer)

    sources, dst = paths
    if dst is None:
        if proof is not None or page is not None or format is None or out_dir is None:
            message = "--out-dir requires --to FORMAT, and excludes --proof and --report"
            raise click.UsageError(message)
        _convert_all(convert, _targets(sources, out_dir, format), format, color, is_json=as_json_, verbose=verbose)
        return
    (src,) = sources
    with target(dst, format, is_json=as_json_) as path:
        report = convert(src, path)
        write_proof(report.proof, proof, src, report.written, shapes=bindings, edition=edition)
        outcome = Findings(verb="convert", proof=report.proof, diagnostics=report.findings)
        write_report(page, src, report.written, outcome, **reading)
        if as_json_:
            print_json(_document(report, verbose=verbose))
        else:
            print_findings(report.findings, color)
            _tell(report, verbose=verbose)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _targets(sources: Iterable[Path], folder: Path, format: str) -> dict[Path, Path]:
    """Return the file in `folder` for each source: its name with the extension of the format.

    Raises:
        UsageError: two sources have the same file.
    """
    from graphport.formats import FORMATS, by_name

    ending = next(iter(by_name(folder, format).endings), "")
    known = sorted((each for kind in FORMATS.values() for each in kind.endings), key=len, reverse=True)
    found: dict[Path, Path] = {}
    for source in sources:
        old = next((each for each in known if source.name.lower().endswith(each)), source.suffix)
        path = folder / f"{source.name.removesuffix(source.name[-len(old) :] if old else '')}{ending}"
        other = next((each for each, taken in found.items() if taken == path), None)
        if other is not None:
            message = f"{other} and {source} would both be written to {path}; convert them into two folders"
            raise click.UsageError(message)
        found[source] = path
    return found


def _convert_all(
    convert: Callable[[Path, Path], ConversionReport],
    targets: Mapping[Path, Path],
    format: str,
    color: str,
    *,
    is_json: bool,
    verbose: bool,
) -> None:
    """Convert each model, and print its report when it is done; exit with 1 unless all are written and none refuted."""
    from graphport.api.convert import ConversionReport
    from graphport.core.diagnostics import DiagnosticError
    from graphport.core.faults import FOUND

    reports: list[ConversionReport] = []
    for source, path in targets.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            report = convert(source, path)
        except (DiagnosticError, OSError, *FOUND) as error:
            report = ConversionReport(str(source), str(path), format, findings=findings_of(error))
        reports.append(report)
        note_faults(report.findings)
        if not is_json:
            click.echo(f"{shown(str(source))}:")
            print_findings(report.findings, color)
            _tell(report, verbose=verbose)
    is_done = [report.passed and report.written is not None for report in reports]
    if is_json:
        print_json({"passed": all(is_done), "models": [_document(report, verbose=verbose) for report in reports]})
    else:
        click.echo(f"{sum(is_done)} of {len(is_done)} models converted")
    raise click.exceptions.Exit(0 if all(is_done) else 1)


def _document(report: ConversionReport, *, verbose: bool) -> dict[str, Any]:
    words = {"words": [each._asdict() for each in report.operator_mapping]} if verbose else {}
    return words | {
        "source": report.source,
        "target": report.target,
        "format": report.format,
        "unsupported": report.unsupported,
        "verdict": str(report.verdict),
        "verify": None if report.proof is None else report.proof.as_json(),
        "skipped": report.skipped,
        "written": report.written,
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _tell(report: ConversionReport, *, verbose: bool) -> None:
    from graphport.cli.table import print_table

    if report.unsupported:
        rows = [(op, str(count)) for op, count in report.unsupported.items()]
        print_table(
            ("operator", "nodes"),
            rows,
            title=f"{report.format} does not support these operators, so no file is written:",
        )
        return
    if verbose and report.operator_mapping:
        rows = [
            (each.operator, str(each.nodes), ", ".join(each.words) or "folded or fused")
            for each in report.operator_mapping
        ]
        print_table(("operator", "nodes", "became"), rows)
    if report.written is not None:
        click.echo(f"written to {shown(report.written)} ({report.format})")
    print_verification(report.proof, report.skipped, report.target if report.written is None else None)
