"""Tables of rows, as the modules of a dialect have them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphport.ops import registry
from graphport.ops.declare import PAGES, lift, lower
from graphport.ops.lowering.emitting import emit, numbered
from graphport.ops.rows.rule import Alias, Lifting, Lowering, Mirror
from graphport.ops.rows.text import RowError, alias_of, of_each_word, operator_of, row_of, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page
    from graphport.ops.rows.terms import Function
    from graphport.ops.rows.text import Row


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows of a dialect have in common."""

    dialect: str
    functions: Mapping[str, Function] = field(default_factory=dict[str, "Function"])
    """Small words of its own: `(builder, *arguments)` by name."""
    emit: Callable[..., Any] | None = None
    """`(builder, word, is_last, operands, attributes)` makes a word while an operator is written;
    `None`: as the row has it."""
    has_pages: bool = True
    """Whether rows on the way back name operators beside words; not where words have names of operators."""
    other: str = ""
    """A dialect whose words, too, rows may name behind the arrow."""
    register: Callable[..., Any] | None = None
    """`(*words, **options)` gives what registers a rule of these words, where `lower` does not."""
    register_alias: Callable[..., Any] | None = None
    """The same for words that are read as another one, with all that they are given."""
    register_lift: Callable[[str], Callable[..., Any]] | None = None
    """`(operator)` gives what registers a rule that writes it, where `lift` does not."""
    by_name: bool = False
    """Whether words take all that they are given by name, on the way back of rows that are read in both directions."""

    def having(self, **functions: Function) -> Rows:
        """The same with more small words, those of a module."""
        return replace(self, functions={**self.functions, **functions})

    def lower(self, table: str, **options: Any) -> None:
        """Register rows that say words of the dialect in operators: `word, other(x, alpha=1.0) -> Operator(…)`.

        Raises:
            RowError: a row is malformed as far as that is seen without its terms, which are read when they are needed.
        """
        for row in _rows(table):
            is_alias = bool(alias_of(row))
            rule = (Alias if is_alias else Lowering)(row, self.functions, self._read)
            register = self.register_alias if is_alias else self.register
            if register is not None:
                register(*row.words, **options)(rule)
            else:
                for word in row.words:
                    lower(self.dialect, word, **options)(rule)
            if row.is_both:
                self._lift_back(row)

    def decompose(self, *operators: str) -> None:
        """Register operators of ONNX, for opsets that have not got them, as their pages take them apart."""
        for name in operators:
            page = PAGES[name]
            rule = Lifting(row_of(f"{name} -> {page.decomposes}"), page, {})
            lift(self.dialect, name, until=page.since - 1)(rule)

    def _lift_back(self, row: Row) -> None:
        page = self._page(row, operator_of(row), row.alternatives[0].meaning[0])
        rule = Mirror(row, page, self.functions, self._emitted, has_pages=self.has_pages)
        rule.by_name = self.by_name
        lift(self.dialect, page.name)(rule)

    @staticmethod
    def _page(row: Row, name: str, place: int) -> Page:
        if name not in PAGES:
            raise RowError(row.text, f"{name} has no page", place)
        return PAGES[name]

    def lift(self, table: str, *, until: int | None = None) -> None:
        """Register rows that say operators in words of the dialect: `Operator -> alpha > 0: word(x, alpha)`.

        Raises:
            RowError: as `lower`; or there is no such operator.
        """
        for row in _rows(table):
            for name in row.words:
                page = self._page(row, name, row.text.find(name))
                rule = Lifting(row, page, self.functions, self._emitted, has_pages=self.has_pages)
                register = self.register_lift
                (lift(self.dialect, name, until=until) if register is None else register(name))(rule)

    def read(self, word: str, b: Builder, *operands: Any, **attributes: Any) -> Any:
        """The first result of a word, for functions that are made of others; raises `RowError` where there is none."""
        rule = self._read(word)
        if rule is None:
            raise RowError(word, "this is no word")
        return rule(b, False, operands, attributes)

    def _read(self, word: str) -> Callable[..., Any] | None:
        """Another word, which is said in operators by its own rule."""
        rule = registry.lowering(self.dialect, word)
        if rule is None and self.other:
            rule = registry.lowering(self.other, word)
        if rule is None:
            return None
        return partial(_read, rule)

    def _emitted(self, word: str) -> Callable[..., Any]:
        emit = self.emit or _word
        return lambda b, is_last, operands, attributes: emit(b, word, is_last, operands, attributes)


def _word(b: Builder, word: str, is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """A word with what the row gives it; what comes last has the fact of the operator that it is written for."""
    if is_last:
        return b.word(word, *numbered(b, operands), **attributes)[0]
    return emit(b, word, *operands, **attributes)


def _rows(table: str) -> Iterator[Row]:
    for row in rows(table):
        yield from of_each_word(row)


def _read(
    rule: Callable[..., Any], b: Builder, is_last: bool, operands: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    """What a rule makes of another word; on the way that is its first result alone."""
    if is_last:
        return rule(b, *operands, **attributes)
    wanted = b.count, b.absent
    b.count, b.absent = 1, frozenset()
    try:
        return registry.results(rule(b, *operands, **attributes))[0]
    finally:
        b.count, b.absent = wanted
