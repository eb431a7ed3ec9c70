"""Compiled rows: callable rules that are compiled at their first use."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.sequences import is_sequence
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.rule_language.mirror import invert_rule
from graphport.ops.rule_language.terms import TermCompiler, constant_scalar, float_scalar
from graphport.ops.rule_language.text import RuleError, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef
    from graphport.ops.rule_language.terms import Function, Names, Term, Words
    from graphport.ops.rule_language.text import Parameter, ParsedRule

_FORMS = {"float": float_scalar, "number": constant_scalar}
_ABSENT: Any = object()


class _Alternative(NamedTuple):
    """One alternative of a row: bindings, guard and expression."""

    bindings: tuple[Term, ...]
    guard: Term | None
    meaning: Term


class _Compiled(NamedTuple):
    """The alternatives of a row, and the operators and names that they use."""

    ways: tuple[_Alternative, ...]
    operators: tuple[str, ...]
    always: frozenset[str]
    """The operators that every alternative uses."""
    used: frozenset[str]

    def answer(self, b: Builder, names: Names) -> Any:
        """Evaluate the first alternative whose guard is true; `_ABSENT` if there is none."""
        for bindings, guard, meaning in self.ways:
            for each in bindings:
                each(b, names)
            if guard is None or constant_scalar(guard(b, names)):
                return meaning(b, names)
        return _ABSENT


def _compile_rule(
    row: ParsedRule,
    names: set[str],
    functions: Mapping[str, Function],
    words: Words | None,
    *,
    has_operators: bool = True,
) -> _Compiled:
    used: set[str] = set()
    operators: list[tuple[str, ...]] = []
    ways: list[_Alternative] = []
    known = set(names)
    for each in row.alternatives:
        reader = TermCompiler(row, set(known), functions, words, has_operators)
        bindings = tuple(reader.binding(stated) for stated in each.bindings)
        # Names bound before a guard are also defined in the alternatives that follow.
        known |= reader.names
        guard = None if each.guard is None else reader.term(each.guard)
        ways.append(_Alternative(bindings, guard, reader.term(each.meaning, is_last=True)))
        used |= reader.used
        operators.append(tuple(reader.operators))
    stated = tuple(dict.fromkeys(name for each in operators for name in each))
    return _Compiled(tuple(ways), stated, frozenset(stated).intersection(*operators), frozenset(used))


class _Rule(ABC):
    """A row with its compiled alternatives."""

    row: ParsedRule

    def __repr__(self) -> str:
        return self.row.text

    @cached_property
    @abstractmethod
    def _compiled(self) -> _Compiled:
        """The row compiled and checked against the operator definitions; raises `RowError` for an invalid row."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The op types and operators that the row uses; raises `RowError` for an invalid row."""
        return self._compiled.operators

    @property
    def always(self) -> frozenset[str]:
        """The operators that every alternative uses."""
        return self._compiled.always


class ImportRule(_Rule):
    """An import rule written as a row: op types of a dialect as canonical operators."""

    def __init__(self, row: ParsedRule, functions: Mapping[str, Function], words: Words | None = None) -> None:
        """Create a rule from a row, the functions that it may call, and other op types of the dialect."""
        self.row = row
        self._functions = functions
        self._words = words

    @cached_property
    def _parameters(self) -> tuple[Parameter, ...]:
        return parameters(self.row)

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {each.name: _ABSENT if each.is_required else each.default for each in self._parameters}

    @cached_property
    def _positions(self) -> tuple[str, ...]:
        return tuple(each.name for each in self._parameters if not each.is_keyword and not each.is_variadic)

    @cached_property
    def _variadic(self) -> str | None:
        return next((each.name for each in self._parameters if each.is_variadic), None)

    @cached_property
    def _number_parameters(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        return tuple((each.name, _FORMS[each.kind]) for each in self._parameters if each.kind in _FORMS)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """The signature of the equivalent function."""
        kinds = inspect.Parameter
        found = [kinds("builder", kinds.POSITIONAL_ONLY)]
        for each in self._parameters:
            kind = kinds.VAR_POSITIONAL if each.is_variadic else kinds.POSITIONAL_OR_KEYWORD
            default = kinds.empty if each.is_required or each.is_variadic else each.default
            annotation = each.kind if each.kind in _FORMS else kinds.empty
            kind = kinds.KEYWORD_ONLY if each.is_keyword else kind
            found.append(kinds(each.name, kind, default=default, annotation=annotation))
        return inspect.Signature(found)

    @cached_property
    def _compiled(self) -> _Compiled:
        """The row compiled and checked against the operator definitions.

        Raises:
            RowError: the row is malformed, does not match a definition, or has an unused parameter that is not
                `ignored`.
        """
        found = _compile_rule(self.row, set(self._defaults), self._functions, self._words)
        kept = {each.name for each in self._parameters if each.kind != "ignored"}
        if dropped := sorted(kept - found.used):
            message = f"{', '.join(dropped)} is not used; declare an ignored parameter as `{dropped[0]}: ignored`"
            raise RuleError(self.row.text, message)
        return found

    @property
    def is_operand(self) -> bool:
        """Whether each alternative that returns a value returns an operand unchanged."""
        stated = [each.meaning[1].strip() for each in self.row.alternatives]
        return all(text in self._positions or text.startswith("unsupported(") for text in stated)

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        """Return the results as canonical operators.

        Raises:
            UnsupportedError: no guard is true.
            ShapeError: the operands or attributes do not match the row's parameters.
        """
        meaning, names = self._compiled, self._bound(b, operands, attributes)
        for name, form in self._number_parameters:
            names[name] = form(names[name])
        answer = meaning.answer(b, names)
        if answer is _ABSENT:
            guards = " or ".join(each.guard[1] for each in self.row.alternatives if each.guard is not None)
            message = f"there is a rule for it where {guards}"
            raise UnsupportedError(message)
        return answer

    def _bound(self, b: Builder, operands: tuple[Value | None, ...], attributes: Mapping[str, Any]) -> Names:
        names, positions = dict(self._defaults), self._positions
        first, rest = operands[: len(positions)], operands[len(positions) :]
        names.update(zip(positions, first, strict=False))
        is_known = attributes.keys() <= names.keys() and not attributes.keys() & set(positions[: len(first)])
        names.update(attributes)
        if self._variadic is not None:
            names[self._variadic] = rest
        elif rest:
            is_known = False
        if not is_known or any(value is _ABSENT for value in names.values()):
            try:
                self.__signature__.bind(b, *operands, **attributes)
            except TypeError as error:
                message = f"its {len(operands)} operands do not match its signature: {error}"
                raise ShapeError(message) from error
        return names


class Alias(ImportRule):
    """A row that imports an op type by the rule of another one, with unchanged arguments: `word -> other`."""

    @cached_property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        more = (kinds("operands", kinds.VAR_POSITIONAL), kinds("attributes", kinds.VAR_KEYWORD))
        return inspect.Signature([kinds("builder", kinds.POSITIONAL_ONLY), *more])

    @cached_property
    def _compiled(self) -> _Compiled:
        """The rule of the op type that the alias names.

        Raises:
            RowError: it does not exist.
        """
        place, name = self.row.alternatives[0].meaning
        other = None if self._words is None else self._words(name)
        if other is None:
            raise RuleError(self.row.text, f"{name} is not an op type of the dialect", place)
        way = _Alternative((), None, lambda b, given: other(b, True, given["operands"], given["attributes"]))
        return _Compiled((way,), (name,), frozenset((name,)), frozenset())

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        """Return the result of that rule."""
        return self._compiled.answer(b, {"operands": operands, "attributes": attributes})


class ExportRule(_Rule):
    """An export rule written as a row: an operator as op types of a dialect or as other operators, under a guard.

    The names in it are those of the operator definition. Attributes that a row does not name must have their default.
    """

    def __init__(
        self,
        row: ParsedRule,
        op_def: OpDef,
        functions: Mapping[str, Function],
        words: Words | None = None,
        *,
        has_operators: bool = True,
    ) -> None:
        """Create a rule from a row and its operator definition.

        `words` emits op types of the dialect; with `has_operators` the row may also use canonical operators.
        """
        self._has_operators = has_operators
        self.row = row
        self.op_def = op_def
        self._functions = functions
        self._words = words

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        signature = self.op_def.signature
        found: dict[str, Any] = {each.name: () if each.is_variadic else None for each in signature.operands}
        return found | {name: each.default for name, each in signature.keywords.items()}

    @cached_property
    def _compiled(self) -> _Compiled:
        stated = parameters(self.row)
        if any(each.kind != "ignored" or each.name not in self._defaults for each in stated):
            message = f"{self.op_def.name} has its parameters from its definition; a row may only list `ignored` ones"
            raise RuleError(self.row.text, message, self.row.parameters[0] if self.row.parameters else 0)
        names = set(self._defaults)
        found = _compile_rule(self.row, names, self._functions, self._words, has_operators=self._has_operators)
        return found._replace(used=found.used | {each.name for each in stated})

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        """Return the results; `None` if no guard is true or the node has attributes that the row does not cover."""
        meaning, names = self._compiled, dict(self._defaults)
        signature = self.op_def.signature
        for place, value in enumerate(operands):
            own = signature.operand(place)
            if own is None:
                return None
            names[own.name] = operands[place:] if own.is_variadic else value
            if own.is_variadic:
                break
        names.update(attributes)
        for name, value in names.items():
            if name not in meaning.used and not (value is self._defaults[name] or value == self._defaults[name]):
                return None
        answer = meaning.answer(b, names)
        is_whole = answer is not _ABSENT and (b.count == 1 or (is_sequence(answer) and len(answer) >= b.count))
        return answer if is_whole else None


class Mirror(ExportRule):
    """The export rule that inverts a row valid in both directions."""

    by_name = False
    """Whether op types receive their operands by keyword."""

    @cached_property
    def _compiled(self) -> _Compiled:
        self.row = invert_rule(self.row, by_name=self.by_name)
        return super()._compiled
