"""`graphport cut`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    edition_option,
    extract_writer_options,
    input_bindings,
    input_option,
    print_findings,
    print_json,
    program_option,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.shapes import fact_as_json
from graphport.cli.verification import print_verification, verification, verification_options, write_proof

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphport.api.cut import CutReport
    from graphport.core.facts import Fact

_LISTS = ("--from", "--to")


class _ListsOfNames(Verb):
    """Accepts several names after one `--from` or `--to` that follows both file arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _expand_repeated_options(args, self._with_value()))

    def _with_value(self) -> set[str]:
        options = (each for each in self.params if isinstance(each, click.Option) and not each.is_flag)
        return {name for option in options for name in option.opts}


def _expand_repeated_options(args: Sequence[str], with_value: set[str]) -> list[str]:
    """Expand `A B --from x y` to `A B --from x --from y`."""
    found: list[str] = []
    files, option, is_value = 0, "", False
    for arg in args:
        if is_value:
            is_value = False
        elif arg.startswith("-") and arg != "-":
            option = arg if arg in _LISTS else ""
            is_value = arg in with_value
        elif files < 2:
            files += 1
        elif option:
            found.append(option)
        found.append(arg)
    return found


@click.command(name="cut", cls=_ListsOfNames)
@click.argument("model", type=MODEL)
@click.argument("dst", type=FILE)
@click.option(
    "--from", "inputs", multiple=True, metavar="NAMES", help="Input values or first nodes of the extracted part."
)
@click.option(
    "--to", "outputs", multiple=True, metavar="NAMES", help="Output values or last nodes of the extracted part."
)
@click.option("--format", "format", metavar="FORMAT", help="Format of DST (default: by its file name).")
@verification_options
@input_option
@edition_option
@program_option
@writer_options
@answered
def verb(
    model: Path,
    dst: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    format: str | None,
    proof: Path | None,
    shapes: Any,
    edition: str | None,
    program: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Extract the part of a model between some values, and prove that the file computes the same.

    Names denote values or nodes: a node after --from is the first of the submodel (its operands become inputs), a node
    after --to is the last. Separate several names by blanks or commas, or repeat the option. Without --from the
    submodel begins at the model's inputs, without --to it ends at its outputs. Other model inputs that it needs are
    kept. Exit code 1 if a name is unknown or the file is refuted.

    \b
    Examples:
      graphport cut net.onnx head.onnx --from relu1
      graphport cut net.onnx middle.onnx --from h --to p f
      graphport cut net.onnx stem.onnx --to conv1 --input x=1x3x8x8
    """
    from graphport.api.cut import cut_file
    from graphport.api.proven_write import Checking

    if not inputs and not outputs:
        message = "set --from, --to or both"
        raise click.UsageError(message)
    checked = Checking(**verification(options))
    report = cut_file(
        model,
        dst,
        inputs,
        outputs,
        format=format,
        shapes=input_bindings(shapes),
        edition=edition,
        program=program,
        checking=checked,
        **extract_writer_options(options, dst, format),
    )
    write_proof(report.proof, proof, model, report.written, shapes=input_bindings(shapes), edition=edition)
    if as_json_:
        print_json(_document(report, model, dst))
    else:
        _tell(report, dst, color)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _document(report: CutReport, source: Path, target: Path) -> dict[str, Any]:
    return {
        "source": str(source),
        "target": str(target),
        "inputs": {name: fact_as_json(fact) for name, fact in report.inputs.items()},
        "outputs": {name: fact_as_json(fact) for name, fact in report.outputs.items()},
        "added": report.added,
        "nodes": report.nodes,
        "verdict": str(report.verdict),
        "verify": None if report.proof is None else report.proof.as_json(),
        "skipped": report.skipped,
        "written": report.written,
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _tell(report: CutReport, target: Path, color: str) -> None:
    print_findings(report.findings, color)
    for what, facts in (("inputs", report.inputs), ("outputs", report.outputs)):
        click.echo(f"{what}: {shown(_listed(facts))}")
    if report.written is not None:
        click.echo(f"written to {shown(report.written)}: {report.nodes} nodes")
    print_verification(report.proof, report.skipped, str(target) if report.written is None else None)


def _listed(facts: Mapping[str, Fact]) -> str:
    return ", ".join(f"{name} {fact}" for name, fact in facts.items()) or "none"
