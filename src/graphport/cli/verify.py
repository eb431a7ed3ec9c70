"""`graphport verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    bound,
    findings_end,
    json_option,
    print_json,
    reading_options,
)
from graphport.cli.usage import Choice

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Verb, name="verify")
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@click.option(
    "--inputs", "inputs", type=MODEL, help="An .npz file with an array for each input of A; drawn if not given."
)
@click.option("--proof", type=FILE, metavar="FILE", help="Write the proof here; one that is there is repeated.")
@click.option(
    "--proof-effort",
    "effort",
    type=Choice(["default", "full"]),
    default="default",
    show_default=True,
    help="Ask the reference also where that takes long.",
)
@reading_options
@json_option
@findings_end
def verb(
    a: Path,
    b: Path,
    inputs: Path | None,
    proof: Path | None,
    effort: str,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    as_json_: bool,
) -> None:
    """Prove that two files compute the same: each runs in its own runtime, and the reference is asked besides.

    Exit code 0 if that is proven, 1 if the outputs differ or nothing could be proven.

    \b
    Examples:
      graphport verify net.onnx net.xml
      graphport verify net.onnx net.ncnn.param --input x=1x3x224x224 --proof net.proof.json
    """
    import graphport
    from graphport.api.verify import verify
    from graphport.cli import arrays
    from graphport.cli.verification import print_verification
    from graphport.proof.document import changed

    stale = [] if proof is None else changed(proof, {"a": a, "b": b})
    asked: dict[str, Any] = {"shapes": bound(shapes), "edition": edition, "program": program, "states": states}
    given = None
    if inputs is not None:
        given = arrays.inputs_of(graphport.load(a, **asked), inputs)
    found = verify(a, b, given, proof=proof, effort=effort, **asked)
    if as_json_:
        print_json({**found.as_json(), "changed": stale})
    else:
        for name in stale:
            click.echo(f"note: {name} is another file than the one that was proven")
        print_verification(found, found.unproven, None)
    raise click.exceptions.Exit(0 if found.passed else 1)
