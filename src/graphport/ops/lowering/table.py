"""Registration of rule tables for a dialect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphport.ops import registry
from graphport.ops.declare import PAGES, export_rule, lower
from graphport.ops.lowering.emitting import emit, numbered
from graphport.ops.rows.rule import Alias, ExportRule, ImportRule, Mirror
from graphport.ops.rows.text import RowError, alias_of, expand_op_types, operator_of, row_of, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page
    from graphport.ops.rows.terms import Function
    from graphport.ops.rows.text import Row


@dataclass(frozen=True, slots=True)
class Rows:
    """The options that all tables of a dialect share."""

    dialect: str
    functions: Mapping[str, Function] = field(default_factory=dict[str, "Function"])
    """The functions that rows of the dialect may call: `(builder, *arguments)` by name."""
    emit: Callable[..., Any] | None = None
    """`(builder, word, is_last, operands, attributes)` emits an op type during export; `None` for the default."""
    has_pages: bool = True
    """Whether export rows may use canonical operators too; false if the dialect has op types of the same names."""
    other: str = ""
    """A second dialect whose op types rows may also name after the arrow."""
    register: Callable[..., Any] | None = None
    """`(*words, **options)` returns the decorator that registers an import rule; default `lower`."""
    register_alias: Callable[..., Any] | None = None
    """As `register`, for aliases."""
    register_export: Callable[[str], Callable[..., Any]] | None = None
    """`(operator)` returns the decorator that registers an export rule; default `export_rule`."""
    by_name: bool = False
    """Whether export rules inverted from import rows pass all operands by keyword."""

    def having(self, **functions: Function) -> Rows:
        """Return a copy that also permits the functions of a module."""
        return replace(self, functions={**self.functions, **functions})

    def lower(self, table: str, **options: Any) -> None:
        """Register import rows: `word, other(x, alpha=1.0) -> Operator(…)`.

        Raises:
            RowError: a row is malformed. Expressions are compiled, and checked, at their first use.
        """
        for row in _rows(table):
            is_alias = bool(alias_of(row))
            rule = (Alias if is_alias else ImportRule)(row, self.functions, self._read)
            register = self.register_alias if is_alias else self.register
            if register is not None:
                register(*row.words, **options)(rule)
            else:
                for op_type in row.words:
                    lower(self.dialect, op_type, **options)(rule)
            if row.is_both:
                self._register_inverse(row)

    def decompose(self, *operators: str) -> None:
        """Register decompositions of ONNX operators for opsets that lack them, from the operator definitions."""
        for name in operators:
            page = PAGES[name]
            rule = ExportRule(row_of(f"{name} -> {page.decomposes}"), page, {})
            export_rule(self.dialect, name, until=page.since - 1)(rule)

    def _register_inverse(self, row: Row) -> None:
        page = self._page(row, operator_of(row), row.alternatives[0].meaning[0])
        rule = Mirror(row, page, self.functions, self._emitted, has_pages=self.has_pages)
        rule.by_name = self.by_name
        export_rule(self.dialect, page.name)(rule)

    @staticmethod
    def _page(row: Row, name: str, place: int) -> Page:
        if name not in PAGES:
            raise RowError(row.text, f"{name} has no page", place)
        return PAGES[name]

    def export_rules(self, table: str, *, until: int | None = None) -> None:
        """Register export rows: `Operator -> alpha > 0: word(x, alpha)`.

        Raises:
            RowError: as `lower`; or the operator is unknown.
        """
        for row in _rows(table):
            for name in row.words:
                page = self._page(row, name, row.text.find(name))
                rule = ExportRule(row, page, self.functions, self._emitted, has_pages=self.has_pages)
                register = self.register_export
                (export_rule(self.dialect, name, until=until) if register is None else register(name))(rule)

    def read(self, op_type: str, b: Builder, *operands: Any, **attributes: Any) -> Any:
        """Import an op type inside a row function. Return its first result; raises `RowError` if it has no rule."""
        rule = self._read(op_type)
        if rule is None:
            raise RowError(op_type, "this is no word")
        return rule(b, False, operands, attributes)

    def _read(self, op_type: str) -> Callable[..., Any] | None:
        """Return the import rule of another op type as a row function."""
        rule = registry.lowering(self.dialect, op_type)
        if rule is None and self.other:
            rule = registry.lowering(self.other, op_type)
        if rule is None:
            return None
        return partial(_read, rule)

    def _emitted(self, op_type: str) -> Callable[..., Any]:
        emit = self.emit or _emit_op_type
        return lambda b, is_last, operands, attributes: emit(b, op_type, is_last, operands, attributes)


def _emit_op_type(b: Builder, op_type: str, is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Emit an op type with the arguments of the row; the final node gets the facts of the exported operator."""
    if is_last:
        return b.emit(op_type, *numbered(b, operands), **attributes)[0]
    return emit(b, op_type, *operands, **attributes)


def _rows(table: str) -> Iterator[Row]:
    for row in rows(table):
        yield from expand_op_types(row)


def _read(
    rule: Callable[..., Any], b: Builder, is_last: bool, operands: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    """Import another op type; an intermediate call returns only the first result."""
    if is_last:
        return rule(b, *operands, **attributes)
    wanted = b.count, b.absent
    b.count, b.absent = 1, frozenset()
    try:
        return registry.results(rule(b, *operands, **attributes))[0]
    finally:
        b.count, b.absent = wanted
