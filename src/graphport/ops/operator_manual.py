"""The data of the operator manual: signatures, dtypes, versions, and the op types of dialects."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.docstrings import docstring
from graphport.ops import registry
from graphport.ops.declare import IMPORT_RULES, OpDef, Refusal
from graphport.ops.rule_language.rule import Alias, ImportRule

if TYPE_CHECKING:
    from graphport.ops.declare import Keyword, Operand

_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class Spelling:
    """The relation between an operator and the op types of a dialect."""

    reads: tuple[str, ...]
    """Op types imported as this operator, alone or with others."""
    writes: bool
    """Whether nodes of the operator can be exported, at least some of them."""
    patterns: tuple[str, ...] = ()
    """Call patterns that are valid in both directions."""

    @property
    def direction(self) -> str:
        """`read, write`, `read`, `write`, or an empty string."""
        return ", ".join(op_type for op_type, holds in (("read", bool(self.reads)), ("write", self.writes)) if holds)


def family(op_def: OpDef) -> str:
    """The name of the operator's family (its folder)."""
    return op_def.function.__module__.removeprefix(registry.DEFINITIONS_ROOT).partition(".")[0]


def by_family() -> dict[str, list[OpDef]]:
    """All operators by family, sorted by name."""
    found: dict[str, list[OpDef]] = {}
    for op_def in sorted(registry.op_defs().values(), key=lambda op_def: (family(op_def), op_def.name)):
        found.setdefault(family(op_def), []).append(op_def)
    return found


def family_title(name: str) -> str:
    """The description of a family in one line."""
    return (docstring(import_module(registry.DEFINITIONS_ROOT + name)) or name).strip().splitlines()[0]


def signature(op_def: OpDef, width: int | None = None) -> str:
    """Format a signature: `Relu(x: T) → y: T`; one parameter per line beyond `width`."""
    operands = [_operand(operand) for operand in op_def.signature.operands]
    keywords = [_keyword(keyword) for keyword in op_def.signature.keywords.values()]
    arguments = [*operands, *(["*", *keywords] if keywords else [])]
    types = [*op_def.signature.results, *[None] * len(op_def.outputs)]
    results = [
        name if type_ is None else f"{name}: {type_.name}" for name, type_ in zip(op_def.outputs, types, strict=False)
    ]
    declared = f"{op_def.name}({', '.join(arguments)}) → {', '.join(results)}"
    if width is None or len(declared) <= width:
        return declared
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{op_def.name}(\n{lines}) → {', '.join(results)}"


def _operand(operand: Operand) -> str:
    type_ = "any" if operand.types is None else operand.types.name
    if operand.is_variadic:
        return f"*{operand.name}: {type_}"
    return f"{operand.name}: {type_} | None = None" if operand.is_optional else f"{operand.name}: {type_}"


def _keyword(keyword: Keyword) -> str:
    annotation = keyword.annotation
    plain = annotation.__name__ if isinstance(annotation, type) else _QUALIFIED.sub("", str(annotation))
    declared = f"{keyword.name}: {plain}"
    if keyword.is_required:
        return declared
    return f"{declared} = {keyword.default!r}"


def element_types(op_def: OpDef) -> dict[str, list[str]]:
    """The dtypes that each type variable of the signature admits."""
    found: dict[str, list[str]] = {}
    for types in [*(operand.types for operand in op_def.signature.operands), *op_def.signature.results]:
        if types is not None:
            found[types.name] = sorted(map(str, types.dtypes))
    return found


def older_forms(op_def: OpDef) -> tuple[int, ...]:
    """The last opsets of older forms of the operator that have an import rule."""
    registry.load("onnx")
    rules = IMPORT_RULES.get(("onnx", op_def.name), ())
    return tuple(rule.until for rule in rules if rule.until is not None)


def versions(op_def: OpDef) -> str:
    """A sentence with the opset of the current form and the older forms that have import rules."""
    older = older_forms(op_def)
    unchanged = f"Unchanged since opset {op_def.since}"
    return f"{unchanged}; forms up to opset {max(older)} are read by rules." if older else f"{unchanged}."


class Emitted(NamedTuple):
    """The op types that a rule emits, as recorded by the tests: see `tools/emitted.py`."""

    operators: tuple[str, ...]
    """Canonical operators (import) or op types (export); those that are always emitted come first."""
    always: frozenset[str]
    test: str
    """A test that covers the rule; empty for a call pattern."""
    is_operand: bool = False
    """Whether the rule returns an operand unchanged."""
    refused: str = ""
    """Why every node of the op type is refused."""

    @property
    def is_import_known(self) -> bool:
        """Whether the import of the op type is known: its operators, or that it is refused."""
        return bool(self.operators or self.test or self.is_operand or self.refused)


@cache
def _recorded_emissions() -> Mapping[str, Any]:
    return json.loads((files("graphport.ops") / "emitted.json").read_text(encoding="utf-8"))


def _emitted(kind: str, dialect: str, op_type: str) -> Emitted | None:
    row = _recorded_emissions()[kind].get(dialect, {}).get(op_type)
    if row is None:
        return None
    always = frozenset(row["always"])
    return Emitted(tuple(sorted(row["emits"], key=lambda name: (name not in always, name))), always, row["test"])


@cache
def _op_types_by_rule(dialect: str) -> Mapping[int, Sequence[str]]:
    """The op types that share a rule, by the rule's identity."""
    found: dict[int, list[str]] = {}
    for (language, op_type), rules in IMPORT_RULES.items():
        if language == dialect:
            found.setdefault(id(registry.row(rules[0].function)), []).append(op_type)
    return found


def _import_emission(dialect: str, op_type: str) -> Emitted | None:
    """Return the operators that the import of an op type emits, from recorded tests and from its row."""
    rules = IMPORT_RULES.get((dialect, op_type), ())
    if not rules and (parent := registry.record(dialect).parent):
        return _combine_emissions(_emitted("lower", dialect, op_type), reading(parent, op_type))
    rule = registry.row(rules[0].function) if rules else None
    if isinstance(rule, Refusal):
        return Emitted((), frozenset(), "", refused=rule.reason)
    seen = _emitted("lower", dialect, op_type) or _emitted_by_same_rule(dialect, rule)
    if not isinstance(rule, ImportRule):
        return seen
    parts = {name: _emission_of_name(dialect, name) for name in rule.operators}
    named = dict.fromkeys(name for part in parts.values() for name in part.operators)
    sure = frozenset(name for own in rule.always for name in parts[own].always)
    is_operand = rule.is_operand or (isinstance(rule, Alias) and any(part.is_operand for part in parts.values()))
    if is_operand and not named:
        return Emitted((), frozenset(), seen.test if seen else "", is_operand=True)
    if seen is None:
        return Emitted(tuple(named), sure, "") if named else None
    always = frozenset(name for name in seen.always if name in sure or name not in named)
    operators = dict.fromkeys([*seen.operators, *named])
    return Emitted(tuple(sorted(operators, key=lambda name: name not in always)), always, seen.test)


def _combine_emissions(own: Emitted | None, other: Emitted | None) -> Emitted | None:
    """Combine the records of an op type in a dialect and in its parent."""
    if own is None or other is None or not (own.operators and other.operators):
        return own if own and own.operators else other
    always = own.always & other.always
    operators = dict.fromkeys([*own.operators, *other.operators])
    return Emitted(tuple(sorted(operators, key=lambda name: (name not in always, name))), always, own.test)


def _emitted_by_same_rule(dialect: str, rule: object) -> Emitted | None:
    """Return the recorded operators of another op type of the rule."""
    others = _op_types_by_rule(dialect).get(id(rule), ())
    return next((found for other in others if (found := _emitted("lower", dialect, other)) is not None), None)


def _emission_of_name(dialect: str, name: str) -> Emitted:
    """Return the operators that a name in a row emits: an operator, or an op type of the dialect or of its parent."""
    if name in registry.op_defs():
        return Emitted((name,), frozenset((name,)), "")
    return _import_emission(dialect, name) or _emission_in_other_dialect(dialect, name) or Emitted((), frozenset(), "")


def _emission_in_other_dialect(dialect: str, op_type: str) -> Emitted | None:
    """Return the operators of an op type whose rule belongs to another dialect (PNNX uses rules of PyTorch)."""
    rule = registry.lowering(dialect, op_type)
    own = _dialects().get(op_type) if rule is None else _words_by_rule().get(id(_innermost(rule)))
    return None if own is None or own == (dialect, op_type) else _import_emission(*own)


@cache
def _dialects() -> Mapping[str, tuple[str, str]]:
    """The dialect of each op type."""
    registry.names()
    return {op_type: (dialect, op_type) for dialect, op_type in IMPORT_RULES}


@cache
def reads(dialect: str) -> Mapping[str, Emitted]:
    """Every op type of a dialect that has an import rule, with the operators that the rule emits."""
    found: dict[str, Emitted] = {}
    if dialect == "onnx":
        found = {name: Emitted((name,), frozenset((name,)), "") for name in registry.op_defs()}
    for op_type, declared in registry.patterns(dialect).items():
        names = tuple(dict.fromkeys(op_def.name for op_def, _ in declared))
        found[op_type] = Emitted(names, frozenset(names if len(names) == 1 else ()), "")
    registry.load(dialect)
    # Op types covered by the rule of another one, such as PyTorch's overloads, occur in the test records only.
    words = [
        *_recorded_emissions()["lower"].get(dialect, ()),
        *(op_type for language, op_type in IMPORT_RULES if language == dialect),
    ]
    for op_type in words:
        if op_type not in found:
            found[op_type] = _import_emission(dialect, op_type) or Emitted((), frozenset(), "")
    return MappingProxyType({op_type: found[op_type] for op_type in sorted(found)})


def reading(dialect: str, op_type: str) -> Emitted | None:
    """Return the operators of an op type's import, including op types that the rule of another one covers."""
    found = reads(dialect).get(op_type)
    if dialect == "onnx":
        # A current ONNX operator is itself; older forms may need other operators.
        return found and _combine_emissions(found, _emitted("lower", dialect, op_type))
    if found is not None:
        return found
    rule = registry.lowering(dialect, op_type)
    if rule is None:
        return None
    if registry.record(dialect).parent:
        return _import_emission(dialect, op_type)
    other = _words_by_rule().get(id(_innermost(rule)))
    return Emitted((), frozenset(), "") if other is None else reads(other[0])[other[1]]


@cache
def _words_by_rule() -> Mapping[int, tuple[str, str]]:
    """The dialect and one op type of each rule, by the rule's identity."""
    registry.names()
    found: dict[int, tuple[str, str]] = {}
    for name, rules in IMPORT_RULES.items():
        found.setdefault(id(_innermost(rules[0].function)), name)
    return found


def _innermost(rule: Any) -> Any:
    while (inner := getattr(rule, "__wrapped__", None)) is not None:
        rule = inner
    return rule


@cache
def registered(dialect: str) -> Mapping[str, tuple[str, ...]]:
    """Every op type of a dialect that has an import rule, with the operators that it emits."""
    return MappingProxyType({op_type: emitted.operators for op_type, emitted in reads(dialect).items()})


def export_op_types(dialect: str, op_def: OpDef) -> Emitted | None:
    """Return the op types that a node of the operator `op_def` is exported to; `None` if it is not exported."""
    if dialect == "onnx":
        return Emitted((op_def.name,), frozenset((op_def.name,)), "")
    registry.load(dialect)
    if patterns := op_def.spellings.get(dialect):
        return Emitted(patterns, frozenset(patterns), "")
    found = _emitted("lift", dialect, op_def.name)
    if parent := registry.record(dialect).parent:
        return _combine_emissions(found, export_op_types(parent, op_def))
    return (found or Emitted((), frozenset(), "")) if registry.has_export_rule(dialect, op_def) else None


@cache
def spellings(dialect: str) -> Mapping[str, Spelling]:
    """The relation of every operator to the op types of a dialect, by operator name.

    An op type that emits several operators counts for the operator with weights, else for the operator that the fewest
    op types always need: `nn.LSTM`, which also needs reshaping, counts for LSTM.
    """
    weighted = {op_def.name for op_def in registry.op_defs().values() if op_def.role == "weighted"}
    needed = {op_type: emitted.always or emitted.operators for op_type, emitted in reads(dialect).items()}
    counts = Counter(name for names in needed.values() for name in names)
    words: dict[str, list[str]] = {}
    for op_type, names in needed.items():
        if names:
            words.setdefault(min(names, key=lambda name: (name not in weighted, counts[name], name)), []).append(
                op_type
            )
    return MappingProxyType(
        {
            op_def.name: Spelling(
                tuple(words.get(op_def.name, ())),
                writes=export_op_types(dialect, op_def) is not None,
                patterns=op_def.spellings.get(dialect, ()),
            )
            for op_def in registry.op_defs().values()
        }
    )
