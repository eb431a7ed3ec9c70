"""The rules that rows are: called as functions would be, compiled when they are first needed."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.sequences import is_sequence
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.rows.mirror import mirrored
from graphport.ops.rows.terms import Reader, number, real
from graphport.ops.rows.text import RowError, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page
    from graphport.ops.rows.terms import Function, Names, Term, Words
    from graphport.ops.rows.text import Parameter, Row

_FORMS = {"float": real, "number": number}
_ABSENT: Any = object()


class _Way(NamedTuple):
    """What is behind one arrow: what is computed first, the guard, and the meaning where it holds."""

    bindings: tuple[Term, ...]
    guard: Term | None
    meaning: Term


class _Meaning(NamedTuple):
    """What is behind the arrows of a row, and the operators and names in it."""

    ways: tuple[_Way, ...]
    operators: tuple[str, ...]
    always: frozenset[str]
    """Those of them that stand behind each arrow."""
    used: frozenset[str]

    def answer(self, b: Builder, names: Names) -> Any:
        """What the first alternative makes whose guard holds."""
        for bindings, guard, meaning in self.ways:
            for each in bindings:
                each(b, names)
            if guard is None or number(guard(b, names)):
                return meaning(b, names)
        return _ABSENT


def _meaning(
    row: Row, names: set[str], functions: Mapping[str, Function], words: Words | None, *, has_pages: bool = True
) -> _Meaning:
    used: set[str] = set()
    operators: list[tuple[str, ...]] = []
    ways: list[_Way] = []
    known = set(names)
    for each in row.alternatives:
        reader = Reader(row, set(known), functions, words, has_pages)
        bindings = tuple(reader.binding(stated) for stated in each.bindings)
        # What is computed before a guard has its name behind the next arrows, too.
        known |= reader.names
        guard = None if each.guard is None else reader.term(each.guard)
        ways.append(_Way(bindings, guard, reader.term(each.meaning, is_last=True)))
        used |= reader.used
        operators.append(tuple(reader.operators))
    stated = tuple(dict.fromkeys(name for each in operators for name in each))
    return _Meaning(tuple(ways), stated, frozenset(stated).intersection(*operators), frozenset(used))


class _Rule(ABC):
    """A row with what it is made of."""

    row: Row

    def __repr__(self) -> str:
        return self.row.text

    @cached_property
    @abstractmethod
    def _meaning(self) -> _Meaning:
        """The row, held against the pages; raises `RowError` where it is wrong."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The words and operators that it is made of; raises `RowError` where the row is wrong."""
        return self._meaning.operators

    @property
    def always(self) -> frozenset[str]:
        """Those of them that it makes in every case."""
        return self._meaning.always


class Lowering(_Rule):
    """A row that says words of a dialect in operators."""

    def __init__(self, row: Row, functions: Mapping[str, Function], words: Words | None = None) -> None:
        """A row, the small words that it may use, and other words of the dialect."""
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
    def _numbers(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        return tuple((each.name, _FORMS[each.kind]) for each in self._parameters if each.kind in _FORMS)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """That of a function that does the same."""
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
    def _meaning(self) -> _Meaning:
        """The row, held against the pages.

        Raises:
            RowError: it is malformed, does not fit them, or takes what is of no account.
        """
        found = _meaning(self.row, set(self._defaults), self._functions, self._words)
        kept = {each.name for each in self._parameters if each.kind != "ignored"}
        if dropped := sorted(kept - found.used):
            message = f"{', '.join(dropped)} is taken and not used; where it is of no account: `{dropped[0]}: ignored`"
            raise RowError(self.row.text, message)
        return found

    @property
    def is_operand(self) -> bool:
        """Whether it gives one of its operands as it is, where it gives anything."""
        stated = [each.meaning[1].strip() for each in self.row.alternatives]
        return all(text in self._positions or text.startswith("unsupported(") for text in stated)

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        """The results in operators.

        Raises:
            UnsupportedError: none of the guards holds.
            ShapeError: operands or attributes are not those of the row.
        """
        meaning, names = self._meaning, self._bound(b, operands, attributes)
        for name, form in self._numbers:
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
                message = f"its {len(operands)} operands are not what it takes: {error}"
                raise ShapeError(message) from error
        return names


class Alias(Lowering):
    """A row that says a word is read as another one is, with all that it is given: `word -> other`."""

    @cached_property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        more = (kinds("operands", kinds.VAR_POSITIONAL), kinds("attributes", kinds.VAR_KEYWORD))
        return inspect.Signature([kinds("builder", kinds.POSITIONAL_ONLY), *more])

    @cached_property
    def _meaning(self) -> _Meaning:
        """The other word.

        Raises:
            RowError: there is none.
        """
        place, name = self.row.alternatives[0].meaning
        other = None if self._words is None else self._words(name)
        if other is None:
            raise RowError(self.row.text, f"{name} is no word", place)
        way = _Way((), None, lambda b, given: other(b, True, given["operands"], given["attributes"]))
        return _Meaning((way,), (name,), frozenset((name,)), frozenset())

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        """What the rule of the other word makes."""
        return self._meaning.answer(b, {"operands": operands, "attributes": attributes})


class Lifting(_Rule):
    """A row that says an operator in words of a dialect, or in other operators, where a guard holds.

    The names in it are those of the operator's page. What a row does not name has to be absent, or as it is by default.
    """

    def __init__(
        self,
        row: Row,
        page: Page,
        functions: Mapping[str, Function],
        words: Words | None = None,
        *,
        has_pages: bool = True,
    ) -> None:
        """A row of a page; `words` makes words of a dialect, beside which it names operators if it `has_pages`."""
        self._has_pages = has_pages
        self.row = row
        self.page = page
        self._functions = functions
        self._words = words

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        signature = self.page.signature
        found: dict[str, Any] = {each.name: () if each.is_variadic else None for each in signature.operands}
        return found | {name: each.default for name, each in signature.keywords.items()}

    @cached_property
    def _meaning(self) -> _Meaning:
        stated = parameters(self.row)
        if any(each.kind != "ignored" or each.name not in self._defaults for each in stated):
            message = f"what {self.page.name} takes its page says, and only what is `ignored` is said here"
            raise RowError(self.row.text, message, self.row.parameters[0] if self.row.parameters else 0)
        names = set(self._defaults)
        found = _meaning(self.row, names, self._functions, self._words, has_pages=self._has_pages)
        return found._replace(used=found.used | {each.name for each in stated})

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        """The results, or `None` where no guard holds or the node says more than the row."""
        meaning, names = self._meaning, dict(self._defaults)
        signature = self.page.signature
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


class Mirror(Lifting):
    """The way back of a row that is read in both directions."""

    by_name = False
    """Whether words take their operands by name."""

    @cached_property
    def _meaning(self) -> _Meaning:
        self.row = mirrored(self.row, by_name=self.by_name)
        return super()._meaning
