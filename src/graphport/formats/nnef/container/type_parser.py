"""The types that texts declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic
from graphport.formats.nnef.container.expressions import PRIMITIVES
from graphport.formats.nnef.container.syntax import (
    ArrayType,
    TensorType,
    TupleType,
    TypeExpression,
    TypeName,
)
from graphport.formats.nnef.container.token_cursor import Fault, TokenCursor

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def read_type(tokens: TokenCursor, depth: int = 0) -> TypeExpression:
    """Parse the type declared at the current token.

    Raises:
        Fault: NNEF0207 nested too deep, NNEF0213 syntax of the other edition, or no type.
    """
    start = tokens.start
    if depth > tokens.limits.type_nesting:
        message = f"the type nesting is deeper than {tokens.limits.type_nesting} levels"
        raise Fault(
            Diagnostic(
                "NNEF0207", message, tokens.here(), "set GRAPHPORT_LIMITS=nnef.type_nesting=N to raise the limit to N"
            )
        )
    declared = _tuple_type(tokens, depth) if tokens.lexeme == "(" else _simple_type(tokens)
    while tokens.lexeme == "[" and tokens.peek() == "]":
        tokens.advance()
        tokens.advance()
        depth += 1
        declared = ArrayType(declared, start, tokens.last)
        if depth > tokens.limits.type_nesting:
            return read_type(tokens, depth)
    return declared


def _tuple_type(tokens: TokenCursor, depth: int) -> TypeExpression:
    start = tokens.start
    tokens.advance()
    items = [read_type(tokens, depth + 1)]
    while tokens.accept(","):
        items.append(read_type(tokens, depth + 1))
    if len(items) < 2:
        raise tokens.fault("','", "write at least two items in a tuple")
    tokens.expect(")", "',' or ')'")
    return TupleType(tuple(items), start, tokens.last)


def _simple_type(tokens: TokenCursor) -> TypeExpression:
    start, lexeme = tokens.start, tokens.lexeme
    if lexeme == "tensor" and tokens.is_final:
        return _tensor_type(tokens)
    if lexeme in PRIMITIVES[tokens.edition] or lexeme == ("?" if tokens.is_final else "tensor"):
        tokens.advance()
        return TypeName(lexeme, start, tokens.last)
    if tokens.is_final and lexeme == "extent":
        message = "'extent' is a type of the provisional edition only"
        raise Fault(Diagnostic("NNEF0213", message, tokens.here(), "write 'integer'"))
    if not tokens.is_final and lexeme == "integer":
        message = "'integer' is a type of the final edition only"
        raise Fault(Diagnostic("NNEF0213", message, tokens.here(), "write 'extent'"))
    kinds = "tensor<…>, integer" if tokens.is_final else "tensor, extent"
    raise tokens.fault("a type", f"a type is {kinds}, scalar, logical, string, an array or a tuple of these")


def _tensor_type(tokens: TokenCursor) -> TypeExpression:
    start = tokens.start
    tokens.advance()
    tokens.expect("<", help="declare the data-type, for example tensor<scalar>")
    item = None
    if tokens.lexeme in PRIMITIVES[tokens.edition] or tokens.lexeme == "?":
        item = tokens.advance()
    if not tokens.accept_greater():
        raise tokens.fault("'>'")
    return TensorType(item, start, tokens.last)
