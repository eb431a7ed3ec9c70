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
from graphport.formats.nnef.container.words import Fault, Words

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def read_type(words: Words, depth: int = 0) -> TypeExpression:
    """Parse the type declared at the current token.

    Raises:
        Fault: NNEF0207 nested too deep, NNEF0213 syntax of the other edition, or no type.
    """
    start = words.start
    if depth > words.limits.type_nesting:
        message = f"the type nesting is deeper than {words.limits.type_nesting} levels"
        raise Fault(Diagnostic("NNEF0207", message, words.here(), "GRAPHPORT_LIMITS=nnef.type_nesting=N allows more"))
    declared = _tuple_type(words, depth) if words.word == "(" else _simple_type(words)
    while words.word == "[" and words.peek() == "]":
        words.advance()
        words.advance()
        depth += 1
        declared = ArrayType(declared, start, words.last)
        if depth > words.limits.type_nesting:
            return read_type(words, depth)
    return declared


def _tuple_type(words: Words, depth: int) -> TypeExpression:
    start = words.start
    words.advance()
    items = [read_type(words, depth + 1)]
    while words.take(","):
        items.append(read_type(words, depth + 1))
    if len(items) < 2:
        raise words.fault("','", "a tuple has at least two items")
    words.expect(")", "',' or ')'")
    return TupleType(tuple(items), start, words.last)


def _simple_type(words: Words) -> TypeExpression:
    start, word = words.start, words.word
    if word == "tensor" and words.is_final:
        return _tensor_type(words)
    if word in PRIMITIVES[words.edition] or word == ("?" if words.is_final else "tensor"):
        words.advance()
        return TypeName(word, start, words.last)
    if words.is_final and word == "extent":
        message = "'extent' is a type of the provisional edition"
        raise Fault(Diagnostic("NNEF0213", message, words.here(), "the final edition calls it 'integer'"))
    if not words.is_final and word == "integer":
        message = "'integer' is a type of the final edition"
        raise Fault(Diagnostic("NNEF0213", message, words.here(), "the provisional edition calls it 'extent'"))
    kinds = "tensor<…>, integer" if words.is_final else "tensor, extent"
    raise words.fault("a type", f"a type is {kinds}, scalar, logical, string, an array or a tuple of these")


def _tensor_type(words: Words) -> TypeExpression:
    start = words.start
    words.advance()
    words.expect("<", help="the final edition says what a tensor holds: tensor<scalar>")
    item = None
    if words.word in PRIMITIVES[words.edition] or words.word == "?":
        item = words.advance()
    if not words.take_greater():
        raise words.fault("'>'")
    return TensorType(item, start, words.last)
