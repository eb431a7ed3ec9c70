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
    from graphport.passes.simplify import SIMPLIFY

    rewrite("simplify", SIMPLIFY, **options)
