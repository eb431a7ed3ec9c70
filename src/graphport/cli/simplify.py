"""`graphport simplify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    Verb,
    bound,
    chosen,
    findings_end,
    packaged,
)
from graphport.cli.prepare import rewriting_options, selected, tell, write_rewriting
from graphport.cli.streams import target
from graphport.cli.verification import verification, write_proof

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Verb, name="simplify")
@rewriting_options
@findings_end
def verb(
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
    """Make a model smaller, and prove that it computes the same.

    What is known is computed, what is computed twice is computed once, chains of moves and of arithmetic become one
    step, what does nothing goes. Weights never grow by more than a tenth, and quantized ones stay as they are. Exit
    code 1 if the outputs of both models differ.

    \b
    Examples:
      graphport simplify net.onnx small.onnx
      graphport simplify net.onnx small.onnx --opset 20
      graphport simplify net.onnx small.onnx --input x=1x3x224x224
      graphport simplify net.onnx small.onnx --skip merge-duplicates -v
    """
    from graphport.api.rewrite import rewrite_file
    from graphport.passes.simplify import SIMPLIFY

    passes = selected(SIMPLIFY, only, skip)
    asked = {"shapes": bound(shapes), "edition": edition, **packaged(options)}
    with target(dst, format, is_json=as_json_) as path:
        report = rewrite_file(
            src,
            path,
            passes,
            format=format,
            **verification(options),
            **asked,
            **chosen(options, path, format),
        )
        write_proof(report.proof, proof, src, report.written, **asked)
        write_rewriting(page, src, report, "simplify", **asked)
        tell(report, path, color, verbose=verbose, is_json=as_json_)
