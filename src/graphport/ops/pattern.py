"""Call patterns: one line that states how a dialect writes an operator, valid in both directions.

leaky_relu(x, alpha=alpha)          operand and attribute under other names
squeeze(data, axes=const(axes))     an operand in ONNX that is an attribute in the dialect; it must be constant
reshape(x, shape, special_zero=not allowzero)
max(x, 0.0)                         a literal that must match
concat([*inputs], axis=axis)        a variadic operand
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.ops.declare import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.ir.graph import Attribute, Node, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_][\w.:]*)|(?P<string>'[^']*')|(?P<mark>[()=,*\[\]]))"
)
_WORDS = {"true": True, "false": False, "none": None}

Kind = Literal["name", "const", "not", "rest", "literal"]


@dataclass(frozen=True, slots=True)
class Term:
    """An argument of a pattern: a parameter of the operator definition or a literal."""

    kind: Kind
    value: Any


@dataclass(frozen=True, slots=True)
class Pattern:
    """An op type with its arguments; `key` is `None` for positional ones."""

    op_type: str
    arguments: tuple[tuple[str | None, Term], ...]


class PatternError(ValueError):
    """A pattern is malformed or does not match the operator's signature."""


def parse(text: str) -> Pattern:
    """Parse a pattern.

    Raises:
        PatternError: a syntax error, with position and expected token.
    """
    tokens: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            message = f"{text!r}: unexpected character at {text[at:]!r}"
            raise PatternError(message)
        tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
        at = match.end()
    return _Parser(text, tokens).pattern()


class _Parser:
    def __init__(self, text: str, tokens: list[tuple[str, str]]) -> None:
        self.text = text
        self.tokens = [*tokens, ("end", "")]
        self.at = 0

    def expect(self, kind: str, *expected: str) -> str:
        found, text = self.tokens[self.at]
        if found != kind or (expected and text not in expected):
            message = f"{self.text!r}: {' or '.join(expected) or kind} expected, not {text or 'the end'}"
            raise PatternError(message)
        self.at += 1
        return text

    def sees(self, kind: str, text: str | None = None, ahead: int = 0) -> bool:
        token = self.tokens[min(self.at + ahead, len(self.tokens) - 1)]
        return token[0] == kind and text in (None, token[1])

    def pattern(self) -> Pattern:
        op_type = self.expect("name")
        self.expect("mark", "(")
        arguments: list[tuple[str | None, Term]] = []
        while not self.sees("mark", ")"):
            if arguments:
                self.expect("mark", ",")
            key = None
            if self.sees("name") and self.sees("mark", "=", ahead=1):
                key = self.expect("name")
                self.expect("mark", "=")
            arguments.append((key, self.term()))
        self.expect("mark", ")")
        self.expect("end")
        return Pattern(op_type, tuple(arguments))

    def term(self) -> Term:
        if self.sees("mark", "["):
            self.expect("mark", "[")
            self.expect("mark", "*")
            name = self.expect("name")
            self.expect("mark", "]")
            return Term("rest", name)
        if self.sees("number"):
            text = self.expect("number")
            return Term("literal", int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text))
        if self.sees("string"):
            return Term("literal", self.expect("string")[1:-1])
        name = self.expect("name")
        if name in _WORDS:
            return Term("literal", _WORDS[name])
        if name == "not":
            return Term("not", self.expect("name"))
        if name == "const" and self.sees("mark", "("):
            self.expect("mark", "(")
            inner = self.expect("name")
            self.expect("mark", ")")
            return Term("const", inner)
        return Term("name", name)


def check(op_def: OpDef, pattern: Pattern) -> None:
    """Check a pattern against its operator definition.

    Raises:
        PatternError: it names an unknown parameter, or one parameter twice.
    """
    operands = {operand.name for operand in op_def.signature.operands}
    keywords = op_def.signature.keywords
    seen: set[str] = set()
    for key, term in pattern.arguments:
        if term.kind == "literal":
            continue
        where = f"{op_def.name}: {pattern.op_type}: {term.value}"
        if term.value in seen or not (term.value in operands or term.value in keywords):
            message = f"{where} is named twice" if term.value in seen else f"{where} is no parameter of the operator"
            raise PatternError(message)
        seen.add(term.value)
        crosses = (key is None) != (term.value in operands)
        if crosses and term.kind != "const":
            message = (
                f"{where} is an attribute on the left and an operand on the right, or vice versa; write "
                f"const({term.value})"
            )
            raise PatternError(message)


def lowered(
    op_def: OpDef, pattern: Pattern, builder: Builder, operands: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    """Import a node that matches `pattern`. Return the canonical results.

    Raises:
        UnsupportedError: an operand or attribute is not in the pattern, or a literal differs.
    """
    given: dict[str, Any] = {}
    rest = list(operands)
    left = dict(attributes)
    for key, term in pattern.arguments:
        if term.kind == "rest":
            given[term.value] = rest
            rest = []
            continue
        value = (rest.pop(0) if rest else None) if key is None else left.pop(key, None)
        if term.kind == "literal":
            _expect(pattern.op_type, key, term.value, value)
        elif value is not None:
            given[term.value] = not value if term.kind == "not" else value
    unknown = [*left, *(f"operand {len(operands) - len(rest) + i + 1}" for i, x in enumerate(rest) if x is not None)]
    if unknown:
        message = f"{pattern.op_type}: {', '.join(unknown)} has no canonical form"
        raise UnsupportedError(message)
    positional: list[Any] = []
    keywords = {
        name: _attribute(builder, pattern.op_type, value)
        for name, value in given.items()
        if name in op_def.signature.keywords
    }
    for operand in op_def.signature.operands:
        value = given.get(operand.name)
        if operand.is_variadic:
            positional += value or []
        else:
            positional.append(_operand(builder, operand.types, value))
    count = builder.count if op_def.is_variadic_output else min(builder.count, len(op_def.outputs))
    return builder.results(op_def, count, *positional, **keywords)


def exported(op_def: OpDef, pattern: Pattern, builder: Builder, node: Node) -> tuple[Value, ...] | None:
    """Export a canonical node. Return its results, or `None` if the pattern cannot represent it."""
    signature = op_def.signature
    operands: dict[str, Any] = {}
    for index, operand in enumerate(signature.operands):
        if operand.is_variadic:
            operands[operand.name] = list(node.inputs[index:])
        elif index < len(node.inputs) and node.inputs[index] is not None:
            operands[operand.name] = node.inputs[index]
    left = {name: value for name, value in node.attributes.items() if value != signature.keywords[name].default}
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for key, term in pattern.arguments:
        value = _emitted(builder, op_def, term, operands, left, node)
        if value is _CANNOT:
            return None
        if term.kind == "rest":
            positional += value
        elif key is None:
            positional.append(builder.constant(value) if term.kind in ("literal", "const") else value)
        elif value is not None:
            keywords[key] = value
    if left or operands:
        return None
    facts = [value.fact for value in node.results]
    return builder.emit(pattern.op_type, *positional, facts=facts, **keywords)


_CANNOT: Any = object()


def _emitted(
    builder: Builder, op_def: OpDef, term: Term, operands: dict[str, Any], left: dict[str, Any], node: Node
) -> Any:
    """Return the argument for `term` and remove its parameter from the remaining ones."""
    if term.kind == "literal":
        return term.value
    if term.value in operands:
        value = operands.pop(term.value)
        if term.kind == "const":
            return _python_value(value)
        return value
    keyword = op_def.signature.keywords.get(term.value)
    if keyword is None:
        return None
    left.pop(term.value, None)
    value = node.attributes.get(term.value, keyword.default)
    return (not value) if term.kind == "not" else value


def constant_numbers(value: Value) -> tuple[int, ...] | None:
    """Return the elements of a small constant, flattened; `None` if they are not known."""
    found = _python_value(value)
    if found is _CANNOT:
        return None
    return tuple(found) if is_sequence(found) else (found,)


def _python_value(value: Value) -> Any:
    fact = value.fact
    if isinstance(fact, TensorFact) and fact.elements is not None and all(isinstance(x, int) for x in fact.elements):
        return fact.elements if fact.shape else fact.elements[0]
    if isinstance(fact, TensorFact) and fact.reals is not None:
        return fact.reals if fact.shape else fact.reals[0]
    if value.storage is None or not value.is_constant or value.storage.count > 1024:
        return _CANNOT
    array = value.storage.numpy()
    return tuple(array.reshape(-1).tolist()) if array.ndim else array.item()


def _expect(op_type: str, key: str | None, expected: object, found: Any) -> None:
    number = found
    storage = getattr(found, "storage", None)
    if storage is not None and storage.count == 1:
        number = storage.numpy().reshape(()).item()
    if number is None and expected is None:
        return
    if number != expected:
        message = f"{op_type}: {key or 'an operand'} is not {expected}"
        raise UnsupportedError(message)


def _operand(builder: Builder, types: Any, value: Any) -> Value | None:
    if value is None or hasattr(value, "fact"):
        return value
    dtype: DType | None = next(iter(types.dtypes)) if types is not None and len(types.dtypes) == 1 else None
    return builder.constant(value, dtype)


def _attribute(builder: Builder, op_type: str, value: Any) -> Attribute:
    if not hasattr(value, "fact"):
        return value
    found = _python_value(value)
    if found is _CANNOT:
        message = f"{op_type}: {value.name} must be a constant"
        raise ShapeError(message)
    return found
