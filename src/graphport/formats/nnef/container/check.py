"""Semantic checks of a document: names, declarations, assignments, types; all errors are reported in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.formats.nnef.container.argument_binding import suggestion
from graphport.formats.nnef.container.declarations import Operations, declaration_of, standard
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.garbage_collection import paused_collection
from graphport.formats.nnef.container.inference import Inference
from graphport.formats.nnef.container.limits import DEFAULT
from graphport.formats.nnef.container.scope import Scope
from graphport.formats.nnef.container.syntax import (
    Array,
    Binary,
    Call,
    Edition,
    Expression,
    Logical,
    Missing,
    Name,
    Node,
    Number,
    String,
    Tuple,
    Unary,
)
from graphport.formats.nnef.container.types import (
    INTEGER,
    UNKNOWN,
    ArrayOf,
    Primitive,
    TensorOf,
    TupleOf,
    Type,
    holds_attributes,
    holds_tensors,
    is_generic,
    leaf_types,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.core.diagnostics import Source
    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.limits import Limits
    from graphport.formats.nnef.container.syntax import Assignment, Document, Fragment, Graph

FRAGMENTS = "KHR_enable_fragment_definitions"
OPERATORS = "KHR_enable_operator_expressions"
_KNOWN = (FRAGMENTS, OPERATORS)
_TRACT = "tract_"
_SYMBOLS = f"{_TRACT}symbol"
_TOLERATED = frozenset({"NNEF0301", "NNEF0334", "NNEF0335"})


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked document, its operations, and its diagnostics.

    `symbols` are integers declared by name through a vendor's extension, used as symbolic dims. `has_misfits` is
    whether arguments accepted by a tolerant reader must be converted to the form of their parameters.
    """

    document: Document
    operations: Operations
    symbols: tuple[str, ...]
    diagnostics: list[Diagnostic]
    has_misfits: bool = False


def check(document: Document, *, limits: Limits = DEFAULT, tolerant: bool = False) -> Checked:
    """Check all rules that need no values: declarations, invocations, assignments and types.

    `tolerant` reports known deviations of other tools as warnings: redeclared standard operations, fragments and
    operators without their extension, an integer for an array of integers, a tensor or an array of one number for a
    scalar.

    Raises:
        ValueError: the document was not read from a source.
    """
    if document.source is None:
        raise ValueError("only a document read from a file can be checked: diagnostics need locations")
    with paused_collection():
        return _Checker(document, document.source, limits, tolerant=tolerant).checked()


class _Tolerant(Findings):
    """Collector of diagnostics that reports deviations of other tools as warnings."""

    def add(self, finding: Diagnostic) -> None:
        super().add(replace(finding, severity=Severity.WARNING) if finding.code in _TOLERATED else finding)


class _Checker:
    def __init__(self, document: Document, source: Source, limits: Limits, *, tolerant: bool) -> None:
        self._document = document
        self._is_final = document.edition is Edition.FINAL
        self._findings = (_Tolerant if tolerant else Findings)(source, limits.findings)
        self._prefixes: tuple[str, ...] = ()
        self._symbols: tuple[str, ...] = ()
        self._enabled: set[str] = set()
        self._limits = limits
        self._tolerant = tolerant

    def checked(self) -> Checked:
        document = self._document
        self._extensions()
        own = self._declarations()
        operations = Operations(standard(document.edition), own, document.unread, self._prefixes)
        self._inference = Inference(document.edition, operations, self._findings, self._limits, tolerant=self._tolerant)
        for fragment in document.fragments:
            self._declaration(fragment, declaration_of(fragment))
        if document.graph is not None:
            self._graph(document.graph)
        self._deprecated()
        found = self._findings.sorted_by_location()
        return Checked(document, operations, self._symbols, found, self._inference.fitting.has_misfits)

    def _error(self, code: str, message: str, node: Node, help: str | None = None) -> None:
        self._findings.error(code, message, node, help)

    def _line(self, node: Node) -> int:
        return self._findings.source.position(node.start)[0]

    # ── extensions ──

    def _extensions(self) -> None:
        symbols: list[str] = []
        for extension in self._document.extensions:
            words = [word.text for word in extension.names]
            if words[0] == _SYMBOLS:
                symbols += words[1:]
                words = words[:1]
            elif extension.is_spaced and not words[0].startswith(_TRACT):
                message = "missing comma between extension names: the Khronos parser stops at the second name"
                self._findings.warn("NNEF0339", message, extension.names[1], "separate them by commas")
            for word, node in zip(words, extension.names, strict=False):
                self._extension(word, node)
        self._symbols = tuple(symbols)

    def _extension(self, name: str, node: Name) -> None:
        vendor = name.partition("_")[0]
        if name in _KNOWN:
            self._enabled.add(name)
        elif vendor == "KHR":
            message = f"unknown extension '{name}'"
            self._error("NNEF0337", message, node, f"use {' or '.join(_KNOWN)}")
        elif vendor + "_" not in self._prefixes:
            message = f"unknown vendor extension '{name}'"
            remedy = f"the reader keeps operations whose names begin with '{vendor}_' unchanged"
            self._findings.warn("NNEF0338", message, node, remedy)
            self._prefixes += (vendor + "_",)

    # ── declarations ──

    def _declarations(self) -> dict[str, Declaration]:
        own: dict[str, Declaration] = {}
        library = standard(self._document.edition)
        if self._document.fragments and self._is_final and FRAGMENTS not in self._enabled:
            message = "fragments require an extension that the document does not declare"
            first = self._document.fragments[0]
            self._error("NNEF0334", message, first.name, f"add 'extension {FRAGMENTS};' after the version")
        for fragment in self._document.fragments:
            name = fragment.name.text
            if name in own:
                line = self._line(own[name].fragment.name)
                message = f"duplicate fragment '{name}'"
                self._error("NNEF0301", message, fragment.name, f"rename this fragment or the first one in line {line}")
                continue
            if name in library:
                message = f"fragment '{name}' has the name of a standard operation"
                self._error("NNEF0301", message, fragment.name, "rename the fragment, or use the standard operation")
            if name not in library or self._tolerant:
                own[name] = declaration_of(fragment)
        return own

    def _declaration(self, fragment: Fragment, declaration: Declaration) -> None:
        self._unique("parameter", "NNEF0313", [each.name for each in fragment.parameters])
        self._unique("result", "NNEF0314", [each.name for each in fragment.results])
        parameters = {each.name.text for each in fragment.parameters}
        for result in fragment.results:
            if result.name.text in parameters:
                message = f"'{result.name.text}' is both a parameter and a result"
                self._error("NNEF0315", message, result.name, "rename the result")
        self._defaults(fragment, declaration)
        if self._is_final:
            self._final_rules(fragment, declaration)
        if fragment.body is not None:
            self._fragment_body(fragment, declaration, fragment.body)

    def _unique(self, what: str, code: str, names: Iterable[Name]) -> None:
        seen: set[str] = set()
        for name in names:
            if name.text in seen:
                self._error(code, f"duplicate {what} '{name.text}'", name, "rename one of both")
            seen.add(name.text)

    def _defaults(self, fragment: Fragment, declaration: Declaration) -> None:
        nothing = Scope((), is_graph=False)
        for parameter, formal in zip(fragment.parameters, declaration.formals, strict=True):
            if parameter.default is not None:
                given = self._inference.type_of(parameter.default, nothing)
                what = f"parameter '{formal.name}'"
                self._inference.fitting.fit(parameter.default, given, formal.type, what, "NNEF0410")

    def _final_rules(self, fragment: Fragment, declaration: Declaration) -> None:
        has_attribute = uses_generic = False
        for parameter, formal in zip(fragment.parameters, declaration.formals, strict=True):
            if formal.takes_tensors and has_attribute:
                message = f"tensor parameter '{formal.name}' follows an attribute"
                self._error("NNEF0316", message, parameter, "place tensor parameters before attributes")
            has_attribute |= not formal.takes_tensors
            uses_generic |= is_generic(formal.type)
            self._not_mixed(formal.type, parameter)
        for result, (name, kind) in zip(fragment.results, declaration.results, strict=True):
            uses_generic |= is_generic(kind)
            self._not_mixed(kind, result)
            if not holds_tensors(kind) or holds_attributes(kind):
                message = f"result '{name}' is {type_name(kind)}, not a tensor"
                self._error(
                    "NNEF0317", message, result, "declare the result as a tensor, or an array or tuple of tensors"
                )
            elif any(isinstance(part, TensorOf) and part.item is None for part in leaf_types(kind)):
                message = f"result '{name}' has no data-type"
                self._error("NNEF0320", message, result, "declare its data-type, for example tensor<scalar>")
        self._generic(fragment, uses_generic=uses_generic)

    def _generic(self, fragment: Fragment, *, uses_generic: bool) -> None:
        name = fragment.name
        if uses_generic and fragment.generic is None:
            message = f"'{name.text}' uses '?' but is not declared generic"
            self._error("NNEF0318", message, name, f"write 'fragment {name.text}<?>( … )'")
        if fragment.generic is not None and not uses_generic:
            message = f"'{name.text}' is declared generic but does not use '?'"
            self._error("NNEF0319", message, fragment.generic, "remove <?>")

    def _not_mixed(self, kind: Type, node: Node) -> None:
        inner = kind
        while isinstance(inner, ArrayOf) and inner.item is not None:
            inner = inner.item
        if isinstance(inner, TupleOf) and holds_tensors(inner) and holds_attributes(inner):
            message = f"{type_name(kind)} mixes tensors and attributes"
            self._error("NNEF0321", message, node, "split it into two parameters")

    # ── bodies ──

    def _fragment_body(self, fragment: Fragment, declaration: Declaration, body: tuple[Assignment, ...]) -> None:
        scope = Scope(body, is_graph=False, is_generic=fragment.generic is not None)
        for parameter, formal in zip(fragment.parameters, declaration.formals, strict=True):
            scope.types[formal.name] = formal.type
            scope.definitions[formal.name] = parameter.name
        parameters = {formal.name for formal in declaration.formals}
        results = dict(declaration.results)
        self._flatness(body, is_graph=False)
        for statement in body:
            kind = self._inference.type_of(statement.value, scope)
            for name, part in self._unpacked(statement.target, kind, statement.value):
                if name.text in parameters:
                    message = f"assignment to the parameter '{name.text}'"
                    self._error("NNEF0306", message, name, "assign to a new name")
                    continue
                wanted = results.get(name.text)
                if wanted is not None:
                    what = f"result '{name.text}'"
                    self._inference.fitting.fit(statement.value, part, wanted, what, "NNEF0411")
                self._define(name, wanted if wanted is not None else part, scope)
        for result in fragment.results:
            if result.name.text not in scope.definitions:
                self._never_assigned("result", result.name, scope)

    def _define(self, name: Name, kind: Type, scope: Scope) -> None:
        first = scope.definitions.get(name.text)
        if first is not None:
            line = self._line(first)
            message = f"duplicate assignment to '{name.text}'"
            self._error("NNEF0304", message, name, f"use a new name; the first assignment is in line {line}")
            return
        scope.definitions[name.text] = name
        scope.types[name.text] = kind

    def _never_assigned(self, what: str, name: Name, scope: Scope) -> None:
        remedy = suggestion(name.text, scope.definitions) or f"add '{name.text} = …' to the body"
        self._error("NNEF0305", f"{what} '{name.text}' is never assigned", name, remedy)

    def _unpacked(self, target: Expression, kind: Type, value: Expression) -> Iterable[tuple[Name, Type]]:
        """Yield each name in `target` with the type of the part of `kind` that is assigned to it."""
        waiting: list[tuple[Expression, Type]] = [(target, kind)]
        while waiting:
            node, part = waiting.pop()
            if isinstance(node, Name):
                yield node, part
                continue
            if not isinstance(node, Array | Tuple):
                continue
            found = items_for(node, part)
            if found is None:
                shape = "an array" if isinstance(node, Array) else f"a tuple of {len(node.items)}"
                message = f"the left side is {shape}, the right side is {type_name(part, self._document.edition)}"
                self._error("NNEF0346", message, node, _remedy_of_target(part, value))
                found = [UNKNOWN] * len(node.items)
            waiting += reversed([*zip(node.items, found, strict=True)])

    # ── the graph ──

    def _graph(self, graph: Graph) -> None:
        self._unique("input", "NNEF0313", graph.parameters)
        self._unique("output", "NNEF0314", graph.results)
        parameters = {each.text: each for each in graph.parameters}
        for result in graph.results:
            if result.text in parameters:
                message = f"'{result.text}' is both an input and an output of the graph"
                copy = "copy" if self._is_final else "idn"
                self._error("NNEF0315", message, result, f"copy the input to a new name: {copy}({result.text})")
        self._flatness(graph.body, is_graph=True)
        scope = Scope(graph.body, is_graph=True)
        scope.types.update(dict.fromkeys(self._symbols, INTEGER))
        for statement in graph.body:
            self._graph_statement(statement, scope, parameters)
        for parameter in graph.parameters:
            if parameter.text not in scope.definitions:
                message = f"the graph parameter '{parameter.text}' is not assigned by 'external'"
                self._error("NNEF0307", message, parameter, f"add '{parameter.text} = external(shape = […])'")
        for result in graph.results:
            if result.text not in scope.definitions and result.text not in parameters:
                self._never_assigned("output", result, scope)

    def _graph_statement(self, statement: Assignment, scope: Scope, parameters: dict[str, Name]) -> None:
        target, value = statement.target, statement.value
        kind = self._inference.type_of(value, scope)
        called = value.name if isinstance(value, Call) else ""
        if isinstance(target, Name):
            self._graph_name(target, kind, called, scope, parameters)
            if called == "variable":
                scope.variables.add(target.text)
            return
        for name, part in self._unpacked(target, kind, value):
            self._graph_name(name, part, called, scope, parameters)

    def _graph_name(self, name: Name, kind: Type, called: str, scope: Scope, parameters: dict[str, Name]) -> None:
        if not isinstance(kind, TensorOf) and kind is not UNKNOWN:
            message = (
                f"'{name.text}' is {type_name(kind, self._document.edition)}, but graph assignments must be tensors"
            )
            remedy = "unpack it: [a, b] = …" if isinstance(kind, ArrayOf) else None
            remedy = "unpack it: a, b = …" if isinstance(kind, TupleOf) else remedy
            remedy = "write the value where it is used" if isinstance(kind, Primitive) else remedy
            self._error("NNEF0309", message, name, remedy)
            kind = UNKNOWN
        is_faulty = kind is UNKNOWN and not called.startswith(self._prefixes)
        if called == "external" and name.text not in parameters:
            message = f"'{name.text}' is the result of 'external' but not a graph parameter"
            self._error("NNEF0308", message, name, "add it to the graph's parameters")
        elif name.text in parameters and called != "external" and not (is_faulty or name.text in scope.definitions):
            message = f"input '{name.text}' is not the result of 'external'"
            self._error("NNEF0307", message, name, f"write '{name.text} = external(shape = […])'")
        self._define(name, kind, scope)

    # ── flat bodies ──

    def _flatness(self, body: tuple[Assignment, ...], *, is_graph: bool) -> None:
        if OPERATORS in self._enabled if self._is_final else not is_graph:
            return
        for statement in body:
            culprit = None if statement.is_flat else _first_extended(statement, allows_minus=self._is_final)
            if culprit is None:
                continue
            if self._is_final:
                message = f"{_described(culprit)} requires an extension that the document does not declare"
                self._error("NNEF0335", message, culprit, f"add 'extension {OPERATORS};' after the version")
            else:
                message = f"{_described(culprit)} in the graph body: the provisional edition requires a flat body"
                self._error("NNEF0336", message, culprit, "move the expression to a fragment")

    def _deprecated(self) -> None:
        found = self._inference.deprecated
        if self._is_final and found.shape_of:
            message = f"'shape_of' is deprecated since 1.0.1{_times(len(found.shape_of))}"
            remedy = "pass the shape as an attribute"
            self._findings.warn("NNEF0344", message, found.shape_of[0], remedy)
        if found.named_tensors:
            message = f"tensor arguments by name are deprecated since 1.0.1{_times(len(found.named_tensors))}"
            name = found.named_tensors[0].name
            self._findings.warn("NNEF0345", message, found.named_tensors[0], f"remove '{name} ='")


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} uses)"


def items_for(target: Array | Tuple, kind: Type) -> list[Type] | None:
    """Return the type of the part of `kind` for each item of `target`; `None` if the structures differ."""
    if kind is UNKNOWN:
        return [UNKNOWN for _ in target.items]
    if isinstance(target, Array) and isinstance(kind, ArrayOf):
        return [kind.item or UNKNOWN for _ in target.items]
    if isinstance(target, Tuple) and isinstance(kind, TupleOf) and len(kind.items) == len(target.items):
        return list(kind.items)
    return None


def _remedy_of_target(kind: Type, value: Expression) -> str | None:
    named = f"'{value.name}'" if isinstance(value, Call) else "the right side"
    match kind:
        case ArrayOf():
            return "unpack an array with brackets: [a, b] = …"
        case TupleOf():
            return f"{named} has {len(kind.items)} results: {', '.join('abcdefgh'[: len(kind.items)])} = …"
        case _:
            return f"{named} has one result"


def _first_extended(statement: Assignment, *, allows_minus: bool) -> Expression | None:
    """Return the first part of a statement that is not flat syntax, which permits one call of plain arguments."""
    culprit = _first_not_flat(statement.value, allows_minus=allows_minus)
    return culprit if culprit is not None or statement.group is None else Missing(*statement.group)


def _first_not_flat(value: Expression, *, allows_minus: bool) -> Expression | None:
    if isinstance(value, Missing):
        return None
    if not isinstance(value, Call):
        return value
    waiting = [argument.value for argument in reversed(value.arguments)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Array | Tuple):
            waiting += reversed(node.items)
        elif isinstance(node, Unary) and node.operator == "-" and isinstance(node.operand, Number) and allows_minus:
            continue
        elif not isinstance(node, Name | Number | String | Logical):
            return node
    return None


def _described(node: Expression) -> str:
    match node:
        case Call():
            return f"'{node.name}' called inside an expression"
        case Unary() | Binary():
            return f"operator '{node.operator}'"
        case Missing():
            return "a pair of parentheses around one expression"
        case _:
            return "an expression other than a call"
