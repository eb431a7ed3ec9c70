"""`graphport verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.custom_operators import custom_operator_options
from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    findings_end,
    input_bindings,
    json_option,
    print_json,
    reading_options,
)
from graphport.cli.verification import effort_option, print_verification

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Verb, name="verify")
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@click.option(
    "--inputs", "inputs", type=MODEL, help="An .npz file with an array for each input of A; default: random values."
)
@click.option("--proof", type=FILE, metavar="FILE", help="Write the proof to this file; repeat an existing proof.")
@effort_option
@click.option("--any-interface", is_flag=True, help="Accept other names, types and open dims of inputs and outputs.")
@click.option("--strict", is_flag=True, help="Exit with 1 unless the verdict is 'verified'.")
@reading_options
@custom_operator_options
@json_option
@findings_end
def verb(
    a: Path,
    b: Path,
    inputs: Path | None,
    proof: Path | None,
    proof_effort: float | str,
    any_interface: bool,
    strict: bool,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    as_json_: bool,
) -> None:
    """Prove that two files compute the same, each in its native runtime.

    The verdict is one of: verified, verified where covered, consistent (one side was run by graphport only), not
    verified, verification failed. Exit code 1 for the last two, with --strict for all but the first.

    \b
    Examples:
      graphport verify net.onnx net.xml
      graphport verify net.onnx net.ncnn.param --input x=1x3x224x224 --proof net.proof.json
    """
    import graphport
    from graphport.api.verify import verify
    from graphport.cli import arrays
    from graphport.proof.document import changed

    stale = [] if proof is None else changed(proof, {"a": a, "b": b})
    asked: dict[str, Any] = {"shapes": input_bindings(shapes), "edition": edition, "program": program, "states": states}
    given = None
    if inputs is not None:
        given = arrays.inputs_of(graphport.load(a, **asked), inputs)
    found = verify(a, b, given, proof=proof, effort=proof_effort, any_interface=any_interface, **asked)
    if as_json_:
        print_json({**found.as_json(), "changed": stale})
    else:
        for name in stale:
            click.echo(f"note: {name} has changed since the proof")
        print_verification(found, found.unproven, None)
    raise click.exceptions.Exit(0 if found.passed and not found.exit_code(is_strict=strict) else 1)
