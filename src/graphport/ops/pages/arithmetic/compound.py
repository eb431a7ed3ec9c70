"""The one operator of our own: an expression on tensors, computed in one go."""

from __future__ import annotations

from typing import Annotated

from graphport.core.facts import TensorFact
from graphport.ops.declare import op
from graphport.ops.shapes import broadcast
from graphport.ops.types import BOOL, NUMBERS_4, Tensor, Types

V = Annotated[Tensor, Types("V", NUMBERS_4 | BOOL, "any")]


def _expression_shape(*inputs: TensorFact, expression: str) -> TensorFact:
    from graphport.ops import expressions

    program = expressions.program_of(expressions.expression(expression), inputs)
    used = [inputs[index].dims for index in expressions.indices(program)]
    return TensorFact(program.dtype, broadcast(*used))


@op(
    shape=_expression_shape,
    since=1,
    name="graphport.Expression",
    outputs=("output",),
    domain="graphport",
    role="pointwise",
)
def Expression(*inputs: V, expression: str) -> V:
    """The value of an expression of pnnx, in which `@0`, `@1`, … are the operands; types go as PyTorch's do.

    Shapes: the operands that it names, broadcast from the last dim.

    Raises:
        ShapeError: an operand's element type is not known, or the operands do not broadcast.
        DiagnosticError: `EXPR0001` to `EXPR0206`, it is no expression or not one of such operands.

    Source: KuiperInfer's expression layer; functions and types as PyTorch 2.13 has them.
    """
    from graphport.ops import expressions

    return expressions.expression(expression)(*inputs)
