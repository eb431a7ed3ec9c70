"""`graphport simplify`."""

from __future__ import annotations

from typing import Any

import click

from graphport.cli.options import Verb, findings_end
from graphport.cli.prepare import rewrite, rewriting_options


@click.command(cls=Verb, name="simplify")
@rewriting_options
@findings_end
def verb(**options: Any) -> None:
    """Simplify a model and prove that it computes the same.

    Constants are folded, duplicates merged, chains of data movement and arithmetic combined, identity operators
    removed. Weights grow by at most a tenth, and quantized weights are not changed. Exit code 1 if the outputs of both
    models differ.

    \b
    Examples:
      graphport simplify net.onnx small.onnx
      graphport simplify net.onnx small.onnx --opset 20
      graphport simplify net.onnx small.onnx --input x=1x3x224x224
      graphport simplify net.onnx small.onnx --skip merge-duplicates -v
    """
    from graphport.passes.simplify import SIMPLIFY

    rewrite("simplify", SIMPLIFY, **options)
