"""`graph.quant`: how tensors of a graph are quantized; read, checked and written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic
from graphport.core.dims import Dim, Symbolic, decide_equal
from graphport.formats.nnef.container.argument_binding import Binder, called_name, suggestion
from graphport.formats.nnef.container.expressions import Expressions
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.inference import Inference
from graphport.formats.nnef.container.lexer import string_literal
from graphport.formats.nnef.container.limits import DEFAULT, Limits
from graphport.formats.nnef.container.parser import first_not_literal
from graphport.formats.nnef.container.quantized import Quantization
from graphport.formats.nnef.container.scope import Scope
from graphport.formats.nnef.container.syntax import Array, Call, Edition, Expression, Logical, Number, String, Unary
from graphport.formats.nnef.container.token_cursor import Fault, TokenCursor
from graphport.formats.nnef.container.types import SCALAR, UNKNOWN, ArrayOf, TensorOf, Type, castable, type_name
from graphport.formats.nnef.container.validity.case import shape_of, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.diagnostics import Source
    from graphport.formats.nnef.container.declarations import Declaration, Operations
    from graphport.formats.nnef.container.operation import Attribute, Tensor

_MOST_BITS = 64


@dataclass(frozen=True, slots=True)
class QuantizationEntry:
    """One line of the file: the tensor's name, and the operation with all parameters but the tensor."""

    key: String
    call: Call


@dataclass(frozen=True, slots=True)
class ParsedQuantization:
    """The lines of a quantization file, and its syntax errors."""

    entries: tuple[QuantizationEntry, ...]
    source: Source
    edition: Edition
    diagnostics: list[Diagnostic]


def parse_quantization(source: Source, edition: Edition, limits: Limits = DEFAULT) -> ParsedQuantization:
    """Read the text of a quantization file of a document in `edition`; never raises for the text's fault."""
    findings = Findings(source, limits.findings)
    tokens = TokenCursor(source.text or "", edition, findings, limits)
    expressions = Expressions(tokens)
    entries: list[QuantizationEntry] = []
    while tokens.lexeme:
        start = tokens.start
        try:
            entries.append(_parse_entry(tokens, expressions))
        except Fault as fault:
            if fault.finding is not None:
                findings.add(fault.finding)
            _skip(tokens, start)
    return ParsedQuantization(tuple(entries), source, edition, findings.sorted_by_location())


def _parse_entry(tokens: TokenCursor, expressions: Expressions) -> QuantizationEntry:
    if tokens.lexeme[:1] not in ("'", '"'):
        raise tokens.fault("a tensor's name in quotes", 'a line is written "tensor": operation(name = value, …);')
    key = expressions.parse()
    if not isinstance(key, String):
        raise Fault(Diagnostic("NNEF0801", "missing tensor name at the beginning of the line", tokens.since(key.start)))
    tokens.expect(":")
    call = expressions.parse()
    if not isinstance(call, Call):
        message = "missing quantization operation"
        raise Fault(Diagnostic("NNEF0801", message, tokens.since(call.start), "linear_quantize(min = 0.0, …)"))
    if not tokens.accept(";") and tokens.is_final:
        if not (tokens.begins_line() or not tokens.lexeme):
            raise tokens.fault("';'")
        message = "missing ';' after a quantization"
        tokens.findings.add(Diagnostic("NNEF0203", message, tokens.since(tokens.last - 1), "add ';' here"))
    return QuantizationEntry(key, call)


def _skip(tokens: TokenCursor, start: int) -> None:
    """Skip to the next line of the file: after a semicolon, or to a quoted name at the begin of a line."""
    while tokens.lexeme:
        if tokens.start > start and tokens.begins_line() and tokens.lexeme[0] in "'\"":
            return
        tokens.examine()
        if tokens.advance() == ";":
            return


def check_quantization(
    parsed: ParsedQuantization,
    operations: Operations,
    tensors: Mapping[str, Tensor],
    labels: Mapping[str, Tensor] | None = None,
    limits: Limits = DEFAULT,
) -> tuple[dict[str, Quantization], list[Diagnostic]]:
    """Return the quantizations by tensor name, and their errors.

    `tensors` are the names of the graph, `labels` its variables by label; a line may use either.
    """
    checker = _Checker(parsed, operations, tensors, labels or {}, limits)
    return checker.checked()


class _Checker:
    def __init__(
        self,
        parsed: ParsedQuantization,
        operations: Operations,
        tensors: Mapping[str, Tensor],
        labels: Mapping[str, Tensor],
        limits: Limits,
    ) -> None:
        self._parsed = parsed
        self._operations = operations
        self._tensors = tensors
        self._labels = labels
        self._findings = Findings(parsed.source, limits.findings)
        self._binder = Binder(parsed.edition, self._findings)
        self._inference = Inference(parsed.edition, operations, self._findings, limits)
        self._declarations: dict[str, Declaration | None] = {}
        self._entries: dict[int, QuantizationEntry] = {}

    def checked(self) -> tuple[dict[str, Quantization], list[Diagnostic]]:
        found: dict[str, Quantization] = {}
        for entry in self._parsed.entries:
            tensor = self._tensor(entry)
            arguments = self._arguments(entry, tensor)
            if tensor is not None and arguments is not None and self._is_unique(entry, tensor, found, arguments):
                found[tensor.name] = Quantization(entry.call.name, arguments, self._findings.span(entry.call))
        return found, self._findings.sorted_by_location()

    def _tensor(self, entry: QuantizationEntry) -> Tensor | None:
        name = entry.key.value
        tensor = self._tensors.get(name) or self._labels.get(name)
        if tensor is None:
            message = f"'{name}' is not a tensor of the graph"
            remedy = suggestion(name, [*self._tensors, *self._labels])
            self._findings.error("NNEF0802", message, entry.key, remedy)
        elif tensor.data not in ("scalar", ""):
            message = f"'{name}' has data-type {tensor.data}, which cannot be quantized"
            self._findings.error(
                "NNEF0803", message, entry.key, "remove the entry, or name a tensor of data-type scalar"
            )
        return tensor

    def _is_unique(
        self, entry: QuantizationEntry, tensor: Tensor, found: dict[str, Quantization], arguments: dict[str, Attribute]
    ) -> bool:
        """Whether the tensor has no quantization yet, or an equal one."""
        first = self._entries.setdefault(id(tensor), entry)
        if first is entry:
            return True
        other = found.get(tensor.name)
        is_same = other is not None and (other.operation, other.arguments) == (entry.call.name, arguments)
        if is_same and first.key.value != entry.key.value:
            return False  # once by its name, once by its label
        line = self._findings.source.position(first.key.start)[0]
        message = f"duplicate quantization of '{entry.key.value}'"
        remedy = f"remove this entry or the first one in line {line}"
        if first.key.value != entry.key.value:
            message = (
                f"'{entry.key.value}' and '{first.key.value}' are the "
                "names of one tensor, but have different quantizations"
            )
        self._findings.error("NNEF0804", message, entry.key, remedy)
        return False

    def _declaration(self, call: Call) -> Declaration | None:
        """Return the declaration of a quantization operation without its tensor parameter."""
        if call.name not in self._declarations:
            found = self._operations.find(call.name)
            if found is not None and (found.is_standard and not call.name.endswith("_quantize")):
                found = None
            if found is not None and (len(found.results) != 1 or not found.formals[0].takes_tensors):
                found = None
            self._declarations[call.name] = found and replace(found, formals=found.formals[1:])
        return self._declarations[call.name]

    def _arguments(self, entry: QuantizationEntry, tensor: Tensor | None) -> dict[str, Attribute] | None:
        call = entry.call
        declaration = self._declaration(call)
        if declaration is None:
            message = f"unknown quantization operation '{call.name}'"
            names = [name for name in self._operations.names() if name.endswith("_quantize")]
            remedy = suggestion(call.name, names) or f"use {', '.join(sorted(names))}"
            self._findings.error("NNEF0805", message, called_name(call), remedy)
            return None
        by_position = next((argument for argument in call.arguments if argument.name is None), None)
        if by_position is not None:
            message = f"positional argument of '{call.name}'"
            self._findings.error("NNEF0806", message, by_position, "name all parameters, for example min = 0.0")
            return None
        plan = self._binder.plan(declaration, call)
        if plan is None:
            return None
        values: dict[str, Attribute] = {}
        is_right = True
        for argument, index in zip(call.arguments, plan.formals, strict=True):
            formal = declaration.formals[index]
            what = f"'{formal.name}' of '{call.name}'"
            if self._check_type(argument.value, formal.type, what):
                value = values[formal.name] = _value(argument.value)
                is_right &= self._has_shape(argument.value, value, tensor, what)
            else:
                is_right = False
        return values if is_right and self._has_values(call, values) else None

    def _check_type(self, node: Expression, kind: Type, what: str) -> bool:
        culprit = first_not_literal(node, allows_minus=True)
        if culprit is not None:
            message = f"{what} is not a literal"
            self._findings.error(
                "NNEF0807", message, culprit, "write numbers, true, false, or nested arrays of literals"
            )
            return False
        given = self._inference.type_of(node, Scope((), is_graph=True))
        if given is UNKNOWN:
            return False
        if isinstance(kind, TensorOf) and self._parsed.edition is Edition.FINAL:
            inner = given
            while isinstance(inner, ArrayOf) and inner.item is not None:
                inner = inner.item
            if castable(inner, kind) and not isinstance(inner, ArrayOf):
                return True
            message = f"{what} must be {type_name(kind)}, got {type_name(given)}"
            remedy = "write numbers or nested arrays of numbers" + (": 1.0 instead of 1" if kind.item is SCALAR else "")
            self._findings.error("NNEF0807", message, node, remedy)
            return False
        return self._inference.fitting.fit(node, given, kind, what, "NNEF0807")

    def _has_shape(self, node: Expression, value: Attribute, tensor: Tensor | None, what: str) -> bool:
        """Whether a per-channel parameter is a rectangular array that broadcasts to the tensor's shape."""
        if not isinstance(value, tuple) or not isinstance(node, Array):
            return True
        shape = _box(value)
        if shape is None:
            message = f"the arrays of {what} differ in length"
            self._findings.error("NNEF0808", message, node, "write rows of equal length: they form one tensor")
            return False
        own = None if tensor is None else shape_of(tensor)
        if own is not None and not _broadcasts(shape, own):
            message = f"{what} has the shape {shown(shape)}, the tensor has {shown(own)}"
            self._findings.error(
                "NNEF0809", message, node, "use a shape that broadcasts: aligned from the left, each extent equal or 1"
            )
            return False
        return True

    def _has_values(self, call: Call, values: dict[str, Attribute]) -> bool:
        nodes = {argument.name: argument.value for argument in call.arguments}
        bits = values.get("bits")
        if isinstance(bits, int) and not 1 <= bits <= _MOST_BITS:
            self._findings.error("NNEF0810", f"bits is {bits}, expected 1 to {_MOST_BITS}", nodes["bits"])
            return False
        if "scale" in values and any(number <= 0 for number in _flatten(values["scale"])):
            self._findings.error("NNEF0810", "scale is not positive", nodes["scale"], "use a scale above 0")
            return False
        if "min" in values and "max" in values:
            low, high = _flatten(values["min"]), _flatten(values["max"])
            pairs = zip(low, high, strict=True) if len(low) == len(high) else ((min(low), max(high)),)
            if any(least >= most for least, most in pairs):
                self._findings.error(
                    "NNEF0810", "'min' is not less than 'max'", nodes["max"], "use a 'min' below 'max'"
                )
                return False
        return True


def _value(node: Expression) -> Attribute:
    """Return the value of a literal expression; its depth is limited by that of types."""
    match node:
        case Array():
            return tuple(map(_value, node.items))
        case Unary():
            value = _value(node.operand)
            return -value if isinstance(value, int | float) else value
        case Number() | String() | Logical():
            return node.value
        case _:
            raise TypeError(node)


def _box(value: Attribute) -> tuple[int, ...] | None:
    """The shape of nested arrays; `None` if they are ragged."""
    if not isinstance(value, tuple):
        return ()
    shapes = {_box(item) for item in value}
    if len(shapes) > 1 or None in shapes:
        return None
    inner = next(iter(shapes), ()) or ()
    return (len(value), *inner)


def _broadcasts(shape: tuple[int, ...], own: tuple[Dim, ...]) -> bool:
    if len(shape) > len(own):
        return False
    return all(
        extent == 1 or decide_equal(extent, other) is not False for extent, other in zip(shape, own, strict=False)
    )


def _flatten(value: Attribute) -> list[float]:
    if isinstance(value, tuple):
        return [number for item in value for number in _flatten(item)]
    return [] if isinstance(value, str | Symbolic) else [float(value)]


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def quantization_text(quantizations: Mapping[str, Quantization], edition: Edition = Edition.FINAL) -> str:
    """The text of a quantization file; reading it gives `quantizations` again."""
    end = ";" if edition is Edition.FINAL else ""
    lines: list[str] = []
    for name, quantization in quantizations.items():
        arguments = ", ".join(f"{key} = {literal_text(value)}" for key, value in quantization.arguments.items())
        lines.append(f"{_quoted(name)}: {quantization.operation}({arguments}){end}\n")
    return "".join(lines)


def literal_text(value: Attribute) -> str:
    """A value as a literal: floats with the fewest digits that give them back."""
    match value:
        case tuple():
            return f"[{', '.join(map(literal_text, value))}]"
        case bool():
            return "true" if value else "false"
        case str():
            return string_literal(value)
        case _:
            return repr(value)


def _quoted(name: str) -> str:
    return f'"{name}"' if re.fullmatch(r"[ !#-\[\]-~]*", name) else string_literal(name)
