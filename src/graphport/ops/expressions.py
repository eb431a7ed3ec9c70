"""Conversion between canonical operators and the expression language of PNNX."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.program import Apply, Argument, Constant, Load, Program
from graphport.expression.program import Builder as ProgramBuilder
from graphport.expression.rpn import Action
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.expression.program import Result
    from graphport.ir.graph import Node

DIALECT = "expression"
_COPY = "copy"


@lru_cache(maxsize=1024)
def expression(text: str) -> Expression:
    """Parse an expression; results are cached because graphs repeat expressions.

    Raises:
        DiagnosticError: the text is not an expression.
    """
    return Expression(text, tier="numpy")


def program_of(found: Expression, facts: Sequence[Fact | None]) -> Program:
    """Return the typed steps of an expression on operands of known facts.

    Raises:
        UnsupportedError: the result is not a single tensor, or the expression uses an unknown dim.
        ShapeError: the dtype of an operand is not known.
        DiagnosticError: `EXPR0201` to `EXPR0206`, the expression does not match the operands.
    """
    sees_shapes = any(step.action is Action.APPLY and step.function in ("size", "int") for step in found.rpn)
    arguments = [_argument(fact, sees_shapes=sees_shapes) for fact in facts]
    builder = ProgramBuilder(found.text, NUMPY_FUNCTIONS, arguments, DType.FLOAT32)
    result: Result = builder.build(found.rpn)
    if not isinstance(result.value, Program):
        message = f"{found} gives no tensor"
        raise UnsupportedError(message)
    return result.value


def indices(program: Program) -> list[int]:
    """Return the indices of the operands that a program loads, in order."""
    return list(dict.fromkeys(value.index for value in program.values if isinstance(value, Load)))


def _argument(fact: Fact | None, *, sees_shapes: bool) -> Argument:
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        message = "the element type of an operand is not known"
        raise ShapeError(message)
    if not sees_shapes:
        # Types depend on the presence of axes only; their sizes are checked by the operators.
        return Argument(fact.dtype, () if fact.shape == () else (1,))
    if fact.shape is None or not all(isinstance(dim, int) for dim in fact.shape):
        message = "a dim that the expression uses is dynamic"
        raise UnsupportedError(message)
    return Argument(fact.dtype, tuple(dim for dim in fact.shape if isinstance(dim, int)))


def expanded(builder: Builder, text: str, operands: Sequence[Value]) -> Value:
    """Return canonical operators that compute the expression `text` on `operands`.

    Raises:
        UnsupportedError: it has no canonical form for these operands.
        ShapeError: the dtype of an operand is not known.
        DiagnosticError: it is not an expression or does not match the operands.
    """
    program = program_of(expression(text), [operand.fact for operand in operands])
    made: list[Value] = []
    for value in program.values:
        match value:
            case Load():
                made.append(operands[value.index])
            case Constant():
                made.append(builder.constant(program.constants[value.slot], value.dtype))
            case Apply():
                made.append(_applied(builder, value, [made[i] for i in value.arguments]))
    return made[-1]


def _applied(builder: Builder, value: Apply, arguments: Sequence[Value]) -> Value:
    if value.kernel == _COPY:
        return builder(registry.op_defs()["Cast"], *arguments, to=value.dtype)
    rule = registry.lowering(DIALECT, value.kernel)
    if rule is None:
        message = f"{value.kernel} has no canonical form"
        raise UnsupportedError(message)
    found = registry.results(rule(builder, *arguments))[0]
    if found is None:
        raise UnsupportedError(value.kernel)
    return found


@dataclass(frozen=True, slots=True)
class Phrase:
    """An expression under construction: text with `{}` for each operand, the operands, and the called functions."""

    text: str
    operands: tuple[Value, ...]
    calls: int = 0


class _OpBuilder(Builder):
    """Records the op types of an export rule as one text instead of creating nodes."""

    def __init__(self) -> None:
        super().__init__(Inference(), dialect=DIALECT)
        self.phrases: dict[Value, Phrase] = {}

    def emit(
        self, op_type: str, *operands: Value | None, facts: Sequence[Fact] = (UNKNOWN,), **attributes: object
    ) -> tuple[Value, ...]:
        if attributes or None in operands:
            raise UnsupportedError(op_type)
        parts = [self.phrase(operand) for operand in operands if operand is not None]
        result = Value(op_type, facts[0])
        text = f"{op_type}({','.join(part.text for part in parts)})"
        inner = tuple(operand for part in parts for operand in part.operands)
        self.phrases[result] = Phrase(text, inner, 1 + sum(part.calls for part in parts))
        return (result,)

    word = emit  # deprecated name

    def phrase(self, value: Value) -> Phrase:
        found = self.phrases.get(value)
        if found is not None:
            return found
        number = literal(value)
        return Phrase("{}", (value,)) if number is None else Phrase(number, ())


def literal(value: Value) -> str | None:
    """Return the text of a scalar float constant; `None` for other values."""
    storage = value.storage
    if storage is None or storage.count != 1 or len(storage.shape) or value.producer is not None:
        return None
    if value.graph is not None and not value.is_constant:
        return None
    number = storage.numpy().item()
    return repr(number) if isinstance(number, int | float) and not isinstance(number, bool) else None


def phrase_of(node: Node) -> Phrase | None:
    """Return a canonical node with one result as an expression of its operands; `None` if it has no such form."""
    op_def = registry.op_defs().get(node.op)
    if op_def is None or len(node.outputs) != 1:
        return None
    op_builder = _OpBuilder()
    for emit in registry.export_rules(DIALECT, op_def):
        try:
            stated = emit(op_builder, node)
        except UnsupportedError:
            continue
        if stated is not None:
            return op_builder.phrases.get(stated[0])
    return None
