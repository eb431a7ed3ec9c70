"""Options of verbs that prove what they write, and how a proof is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.compare import HEADINGS, row
from graphport.cli.options import (
    FILE,
)
from graphport.cli.render import shown
from graphport.cli.usage import Choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.api.written import Written
    from graphport.proof.document import Proof

    Command = Callable[..., Any]


def verification_options(command: Command) -> Command:
    """What verbs can be told that prove what they write by two files, which can be repeated."""
    proof = click.option("--proof", type=FILE, metavar="FILE", help="Write the proof here, with all to repeat it.")
    return proof(checking_options(command))


def checking_options(command: Command) -> Command:
    """What verbs can be told that prove what they write; `verification` picks it."""
    for option in (
        click.option(
            "--proof-effort",
            type=Choice(["default", "full"]),
            default="default",
            show_default=True,
            help="Ask the reference also where that takes long.",
        ),
        click.option("--keep-failed", is_flag=True, help="Keep what is refuted, as DST.failed."),
        click.option(
            "--verify-limit",
            type=click.IntRange(0),
            metavar="MIB",
            help="Prove nothing above so many MiB of weights (default: as many as there is memory for).",
        ),
        click.option(
            "--verify/--no-verify",
            "verify",
            default=None,
            help="Run both files in their runtimes and compare them (default: where possible).",
        ),
    ):
        command = option(command)
    return command


def verification(options: dict[str, Any]) -> dict[str, Any]:
    """What `verification_options` gave, taken from `options`, as `convert` and `rewrite_file` are told it."""
    limit = options.pop("verify_limit")
    return {
        "verify": options.pop("verify"),
        "verify_limit": None if limit is None else limit << 20,
        "keep_failed": options.pop("keep_failed"),
        "effort": options.pop("proof_effort"),
    }


def verified(became: Written) -> dict[str, Any]:
    """What became of a file, for a document."""
    proof = None if became.proof is None else became.proof.as_json()
    return {"verify": proof, "skipped": became.skipped, "written": became.written}


def write_proof(proof: Proof | None, path: Path | None, source: Path, target: str | None, **asked: Any) -> None:
    """Write the document of a proof, where one is wanted and there is one."""
    if path is None or proof is None:
        return
    from graphport.proof.document import write_document

    write_document(path, proof, {"a": source, "b": None if target is None else Path(target)}, asked)


def print_verification(proof: Proof | None, skipped: str | None, missing: str | None) -> None:
    """Tell a proof, or why there is none; `missing` is the file that was not written since it failed."""
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
