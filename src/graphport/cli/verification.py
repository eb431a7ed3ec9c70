"""Options of commands that prove their output, and the printing of proofs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.click_types import ParamType
from graphport.cli.compare import HEADINGS, row
from graphport.cli.options import (
    FILE,
)
from graphport.cli.render import shown
from graphport.cli.usage import grouped

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.api.proven_write import WriteResult
    from graphport.proof.document import Proof

    Command = Callable[..., Any]


_PROOF = "Proof"


class Effort(ParamType):
    """Seconds, `default` or `full`."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Parse the value: a number of seconds or a keyword."""
        from graphport.api.verify import effort_of

        try:
            effort_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


effort_option = grouped(
    _PROOF,
    "--proof-effort",
    type=Effort(),
    metavar="SECONDS",
    default="default",
    help="Seconds to search for further test inputs (default: 5); 'full' runs the reference interpreter as well.",
)


def verification_options(command: Command) -> Command:
    """Add the options of commands that prove their output by two files, which can be repeated."""
    proof = grouped(
        _PROOF, "--proof", type=FILE, metavar="FILE", help="Write the proof to this file, so that it can be repeated."
    )
    return proof(checking_options(command))


def checking_options(command: Command) -> Command:
    """Add the options of commands that prove their output; `verification` extracts them."""
    for option in (
        effort_option,
        grouped(_PROOF, "--strict", is_flag=True, help="Exit with 1 unless the verdict is 'verified'."),
        grouped(_PROOF, "--keep-failed", is_flag=True, help="Keep a file that is refuted, as DST.failed."),
        grouped(
            _PROOF,
            "--verify-limit",
            type=click.IntRange(0),
            metavar="MIB",
            help="Skip verification above N MiB of weights (default: the available memory).",
        ),
        grouped(
            _PROOF,
            "--verify/--no-verify",
            "verify",
            default=None,
            help="Exit with 1 unless native runtimes verify the file; or write it unverified (default: if possible).",
        ),
    ):
        command = option(command)
    return command


def verification(options: dict[str, Any]) -> dict[str, Any]:
    """Extract the arguments of `convert` and `rewrite_file` from `options`."""
    limit = options.pop("verify_limit")
    return {
        "verify": options.pop("verify"),
        "verify_limit": None if limit is None else limit << 20,
        "keep_failed": options.pop("keep_failed"),
        "effort": options.pop("proof_effort"),
        "require_coverage": options.pop("strict"),
    }


def verified(became: WriteResult) -> dict[str, Any]:
    """Return the verification result for a JSON document."""
    proof = None if became.proof is None else became.proof.as_json()
    return {"verdict": str(became.verdict), "verify": proof, "skipped": became.skipped, "written": became.written}


def write_proof(proof: Proof | None, path: Path | None, source: Path, target: str | None, **asked: Any) -> None:
    """Write the proof document if there is a proof and a path."""
    if path is None or proof is None:
        return
    from graphport.proof.document import write_document

    write_document(path, proof, {"a": source, "b": None if target is None else Path(target)}, asked)


def print_verification(proof: Proof | None, skipped: str | None, missing: str | None) -> None:
    """Print a proof, or the reason for its absence; `missing` is the file that was refuted and not written."""
    from graphport.cli.table import print_table

    if proof is None:
        click.echo(f"not verified: {shown(str(skipped))}")
        return
    if proof.outputs:
        print_table(HEADINGS, [row(output.worst) for output in proof.outputs])
    for note in proof.notes:
        click.echo(f"note: {shown(note)}")
    click.echo(shown(proof.sentence))
    if proof.first is not None:
        click.echo(shown(proof.first.sentence))
    if missing is not None:
        click.echo(f"{shown(missing)} is not written; --keep-failed keeps it as {shown(Path(missing).name)}.failed")
