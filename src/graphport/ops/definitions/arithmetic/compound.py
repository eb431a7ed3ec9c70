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
    """Evaluate a PNNX expression in which `@0`, `@1`, … are the operands, with PyTorch's type promotion.

    Shapes: operands broadcast from the last dim.

    Raises:
        ShapeError: the element type of an operand is unknown, or the operands do not broadcast.
        DiagnosticError: `EXPR0001` to `EXPR0206`: the expression is malformed or does not fit the operands.

    Source: KuiperInfer's expression layer; functions and types of PyTorch 2.13.
    """
    from graphport.ops import expressions

    return expressions.expression(expression)(*inputs)
