"""Registration of rule tables for a dialect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphport.ops import registry
from graphport.ops.declare import OP_DEFS, export_rule, lower
from graphport.ops.lowering.emitting import emit, numbered
from graphport.ops.rule_language.rule import Alias, ExportRule, ImportRule, Mirror
from graphport.ops.rule_language.text import RuleError, alias_of, expand_op_types, operator_of, parse_rule, parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef
    from graphport.ops.rule_language.terms import Function
    from graphport.ops.rule_language.text import ParsedRule


@dataclass(frozen=True, slots=True)
class RuleTable:
    """The options that all tables of a dialect share."""

    dialect: str
    functions: Mapping[str, Function] = field(default_factory=dict[str, "Function"])
    """The functions that rows of the dialect may call: `(builder, *arguments)` by name."""
    emit: Callable[..., Any] | None = None
    """`(builder, op_type, is_last, operands, attributes)` emits an op type during export; `None` for the default."""
    has_operators: bool = True
    """Whether export rows may use canonical operators too; false if the dialect has op types of the same names."""
    other: str = ""
    """A second dialect whose op types rows may also name after the arrow."""
    register: Callable[..., Any] | None = None
    """`(*op_types, **options)` returns the decorator that registers an import rule; default `lower`."""
    register_alias: Callable[..., Any] | None = None
    """As `register`, for aliases."""
    register_export: Callable[[str], Callable[..., Any]] | None = None
    """`(operator)` returns the decorator that registers an export rule; default `export_rule`."""
    by_name: bool = False
    """Whether export rules inverted from import rows pass all operands by keyword."""

    def having(self, **functions: Function) -> RuleTable:
        """Return a copy that also permits the functions of a module."""
        return replace(self, functions={**self.functions, **functions})

    def lower(self, table: str, **options: Any) -> None:
        """Register import rows: `op_type, other(x, alpha=1.0) -> Operator(…)`.

        Raises:
            RowError: a row is malformed. Expressions are compiled, and checked, at their first use.
        """
        for row in _rows(table):
            is_alias = bool(alias_of(row))
            rule = (Alias if is_alias else ImportRule)(row, self.functions, self._read)
            register = self.register_alias if is_alias else self.register
            if register is not None:
                register(*row.op_types, **options)(rule)
            else:
                for op_type in row.op_types:
                    lower(self.dialect, op_type, **options)(rule)
            if row.is_both:
                self._register_inverse(row)

    def decompose(self, *operators: str) -> None:
        """Register decompositions of ONNX operators for opsets that lack them, from the operator definitions."""
        for name in operators:
            op_def = OP_DEFS[name]
            rule = ExportRule(parse_rule(f"{name} -> {op_def.decomposes}"), op_def, {})
            export_rule(self.dialect, name, until=op_def.since - 1)(rule)

    def _register_inverse(self, row: ParsedRule) -> None:
        op_def = self._op_def(row, operator_of(row), row.alternatives[0].meaning[0])
        rule = Mirror(row, op_def, self.functions, self._emitted, has_operators=self.has_operators)
        rule.by_name = self.by_name
        export_rule(self.dialect, op_def.name)(rule)

    @staticmethod
    def _op_def(row: ParsedRule, name: str, place: int) -> OpDef:
        if name not in OP_DEFS:
            raise RuleError(row.text, f"{name} is not a canonical operator", place)
        return OP_DEFS[name]

    def export_rules(self, table: str, *, until: int | None = None) -> None:
        """Register export rows: `Operator -> alpha > 0: op_type(x, alpha)`.

        Raises:
            RowError: as `lower`; or the operator is unknown.
        """
        for row in _rows(table):
            for name in row.op_types:
                op_def = self._op_def(row, name, row.text.find(name))
                rule = ExportRule(row, op_def, self.functions, self._emitted, has_operators=self.has_operators)
                register = self.register_export
                (export_rule(self.dialect, name, until=until) if register is None else register(name))(rule)

    lift = export_rules  # deprecated name

    def read(self, op_type: str, b: Builder, *operands: Any, **attributes: Any) -> Any:
        """Import an op type inside a row function. Return its first result; raises `RowError` if it has no rule."""
        rule = self._read(op_type)
        if rule is None:
            raise RuleError(op_type, f"{self.dialect} has no import rule for this op type")
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


def _rows(table: str) -> Iterator[ParsedRule]:
    for row in parse_rules(table):
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


Rows = RuleTable  # deprecated name
