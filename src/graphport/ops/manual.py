"""Op pages as a person reads them: signature, element types, versions, and the words of other languages."""

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
from graphport.ops.declare import LOWERINGS, Page, Refusal
from graphport.ops.rows.rule import Alias, Lowering

if TYPE_CHECKING:
    from graphport.ops.declare import Keyword, Operand

_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one operator and the words of a dialect go together."""

    reads: tuple[str, ...]
    """Words that are read as this operator, alone or with others."""
    writes: bool
    """Whether nodes of it can be said, some of them at least."""
    patterns: tuple[str, ...] = ()
    """Calls that mean just this operator, in both directions."""

    @property
    def direction(self) -> str:
        """`read, write`, one of them, or nothing."""
        return ", ".join(word for word, holds in (("read", bool(self.reads)), ("write", self.writes)) if holds)


def family(page: Page) -> str:
    """The family that a page belongs to, as its folder is called."""
    return page.function.__module__.removeprefix(registry.PAGES_ROOT).partition(".")[0]


def by_family() -> dict[str, list[Page]]:
    """All pages by family, in the order of their names."""
    found: dict[str, list[Page]] = {}
    for page in sorted(registry.pages().values(), key=lambda page: (family(page), page.name)):
        found.setdefault(family(page), []).append(page)
    return found


def family_title(name: str) -> str:
    """What a family is about, in a line."""
    return (docstring(import_module(registry.PAGES_ROOT + name)) or name).strip().splitlines()[0]


def signature(page: Page, width: int | None = None) -> str:
    """Operands, attributes with their defaults, and results: `Relu(x: T) → y: T`; above `width`, one a line."""
    operands = [_operand(operand) for operand in page.signature.operands]
    keywords = [_keyword(keyword) for keyword in page.signature.keywords.values()]
    arguments = [*operands, *(["*", *keywords] if keywords else [])]
    types = [*page.signature.results, *[None] * len(page.outputs)]
    results = [
        name if type_ is None else f"{name}: {type_.name}" for name, type_ in zip(page.outputs, types, strict=False)
    ]
    stated = f"{page.name}({', '.join(arguments)}) → {', '.join(results)}"
    if width is None or len(stated) <= width:
        return stated
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{page.name}(\n{lines}) → {', '.join(results)}"


def _operand(operand: Operand) -> str:
    type_ = "any" if operand.types is None else operand.types.name
    if operand.is_variadic:
        return f"*{operand.name}: {type_}"
    return f"{operand.name}: {type_} | None = None" if operand.is_optional else f"{operand.name}: {type_}"


def _keyword(keyword: Keyword) -> str:
    annotation = keyword.annotation
    plain = annotation.__name__ if isinstance(annotation, type) else _QUALIFIED.sub("", str(annotation))
    stated = f"{keyword.name}: {plain}"
    if keyword.is_required:
        return stated
    return f"{stated} = {keyword.default!r}"


def element_types(page: Page) -> dict[str, list[str]]:
    """The element types that each type variable of the signature admits, by its name."""
    found: dict[str, list[str]] = {}
    for types in [*(operand.types for operand in page.signature.operands), *page.signature.results]:
        if types is not None:
            found[types.name] = sorted(map(str, types.dtypes))
    return found


def older_forms(page: Page) -> tuple[int, ...]:
    """Opsets that an older form of the operator ended with and whose nodes are read by a rule."""
    registry.load("onnx")
    rules = LOWERINGS.get(("onnx", page.name), ())
    return tuple(rule.until for rule in rules if rule.until is not None)


def versions(page: Page) -> str:
    """Since when the operator is what it is, and which older forms are read."""
    older = older_forms(page)
    unchanged = f"Unchanged since opset {page.since}"
    return f"{unchanged}; forms up to opset {max(older)} are read by rules." if older else f"{unchanged}."


class Emitted(NamedTuple):
    """What a rule emits, as the tests of graphport saw it: see `tools/emitted.py`."""

    operators: tuple[str, ...]
    """Operators of the page's side, or words of the dialect; those that it always emits in front."""
    always: frozenset[str]
    test: str
    """A test that shows it; empty where a pattern says it."""
    is_operand: bool = False
    """Whether a row says that it is an operand as it is."""
    refused: str = ""
    """Why no node of the word is read."""

    @property
    def is_known(self) -> bool:
        """Whether it says what the word is read as, or that it is not."""
        return bool(self.operators or self.test or self.is_operand or self.refused)


@cache
def _seen() -> Mapping[str, Any]:
    return json.loads((files("graphport.ops") / "emitted.json").read_text(encoding="utf-8"))


def _emitted(kind: str, dialect: str, word: str) -> Emitted | None:
    row = _seen()[kind].get(dialect, {}).get(word)
    if row is None:
        return None
    always = frozenset(row["always"])
    return Emitted(tuple(sorted(row["emits"], key=lambda name: (name not in always, name))), always, row["test"])


@cache
def _alike(dialect: str) -> Mapping[int, Sequence[str]]:
    """The words of one rule, by its identity."""
    found: dict[int, list[str]] = {}
    for (language, word), rules in LOWERINGS.items():
        if language == dialect:
            found.setdefault(id(registry.row(rules[0].function)), []).append(word)
    return found


def _read(dialect: str, word: str) -> Emitted | None:
    """What a word emits: what tests have seen, of it or of another word of its rule, and what its row names."""
    rules = LOWERINGS.get((dialect, word), ())
    if not rules and (parent := registry.record(dialect).parent):
        return _joined(_emitted("lower", dialect, word), reading(parent, word))
    rule = registry.row(rules[0].function) if rules else None
    if isinstance(rule, Refusal):
        return Emitted((), frozenset(), "", refused=rule.reason)
    seen = _emitted("lower", dialect, word) or _other(dialect, rule)
    if not isinstance(rule, Lowering):
        return seen
    parts = {name: _named(dialect, name) for name in rule.operators}
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


def _joined(own: Emitted | None, other: Emitted | None) -> Emitted | None:
    """What is known of a word that a dialect has from another."""
    if own is None or other is None or not (own.operators and other.operators):
        return own if own and own.operators else other
    always = own.always & other.always
    operators = dict.fromkeys([*own.operators, *other.operators])
    return Emitted(tuple(sorted(operators, key=lambda name: (name not in always, name))), always, own.test)


def _other(dialect: str, rule: object) -> Emitted | None:
    """What another word of a rule was seen to emit."""
    others = _alike(dialect).get(id(rule), ())
    return next((found for other in others if (found := _emitted("lower", dialect, other)) is not None), None)


def _named(dialect: str, name: str) -> Emitted:
    """What a row names: an operator, or a word of its dialect, or of one whose words it has, with what that emits."""
    if name in registry.pages():
        return Emitted((name,), frozenset((name,)), "")
    return _read(dialect, name) or _read_elsewhere(dialect, name) or Emitted((), frozenset(), "")


def _read_elsewhere(dialect: str, word: str) -> Emitted | None:
    """What a word emits that another dialect has the rule of, as PNNX has those of most functions of PyTorch."""
    rule = registry.lowering(dialect, word)
    own = _dialects().get(word) if rule is None else _words_by_rule().get(id(_innermost(rule)))
    return None if own is None or own == (dialect, word) else _read(*own)


@cache
def _dialects() -> Mapping[str, tuple[str, str]]:
    """A dialect of each word, with the word."""
    registry.names()
    return {word: (dialect, word) for dialect, word in LOWERINGS}


@cache
def reads(dialect: str) -> Mapping[str, Emitted]:
    """Every word of a dialect that is read, with the operators that its rule emits."""
    found: dict[str, Emitted] = {}
    if dialect == "onnx":
        found = {name: Emitted((name,), frozenset((name,)), "") for name in registry.pages()}
    for word, stated in registry.patterns(dialect).items():
        names = tuple(dict.fromkeys(page.name for page, _ in stated))
        found[word] = Emitted(names, frozenset(names if len(names) == 1 else ()), "")
    registry.load(dialect)
    # Words that another one's rule reads, as overloads of PyTorch, are known to the tests alone.
    words = [*_seen()["lower"].get(dialect, ()), *(word for language, word in LOWERINGS if language == dialect)]
    for word in words:
        if word not in found:
            found[word] = _read(dialect, word) or Emitted((), frozenset(), "")
    return MappingProxyType({word: found[word] for word in sorted(found)})


def reading(dialect: str, word: str) -> Emitted | None:
    """What a word is read as, also where the rule of another word reads it, as PNNX's reads overloads of PyTorch."""
    found = reads(dialect).get(word)
    if dialect == "onnx":
        # An operator is itself, and its older forms may need others.
        return found and _joined(found, _emitted("lower", dialect, word))
    if found is not None:
        return found
    rule = registry.lowering(dialect, word)
    if rule is None:
        return None
    if registry.record(dialect).parent:
        return _read(dialect, word)
    other = _words_by_rule().get(id(_innermost(rule)))
    return Emitted((), frozenset(), "") if other is None else reads(other[0])[other[1]]


@cache
def _words_by_rule() -> Mapping[int, tuple[str, str]]:
    """A dialect and a word of each rule, by its identity."""
    registry.names()
    found: dict[int, tuple[str, str]] = {}
    for name, rules in LOWERINGS.items():
        found.setdefault(id(_innermost(rules[0].function)), name)
    return found


def _innermost(rule: Any) -> Any:
    while (inner := getattr(rule, "__wrapped__", None)) is not None:
        rule = inner
    return rule


@cache
def registered(dialect: str) -> Mapping[str, tuple[str, ...]]:
    """Every word of a dialect that is read, with the operators that it is read as."""
    return MappingProxyType({word: emitted.operators for word, emitted in reads(dialect).items()})


def written_as(dialect: str, page: Page) -> Emitted | None:
    """The words of a dialect that a node of `page` is written with; `None` where it is not written."""
    if dialect == "onnx":
        return Emitted((page.name,), frozenset((page.name,)), "")
    registry.load(dialect)
    if patterns := page.spellings.get(dialect):
        return Emitted(patterns, frozenset(patterns), "")
    found = _emitted("lift", dialect, page.name)
    if parent := registry.record(dialect).parent:
        return _joined(found, written_as(parent, page))
    return (found or Emitted((), frozenset(), "")) if registry.is_written(dialect, page) else None


@cache
def spellings(dialect: str) -> Mapping[str, Spelling]:
    """How every operator and the words of a dialect go together, by the operator's name.

    A word that is read as several operators counts for the one with weights, else for the one that the fewest words
    always need: `nn.LSTM`, which also takes reshaping, is a word of LSTM.
    """
    weighted = {page.name for page in registry.pages().values() if page.role == "weighted"}
    needed = {word: emitted.always or emitted.operators for word, emitted in reads(dialect).items()}
    counts = Counter(name for names in needed.values() for name in names)
    words: dict[str, list[str]] = {}
    for word, names in needed.items():
        if names:
            words.setdefault(min(names, key=lambda name: (name not in weighted, counts[name], name)), []).append(word)
    return MappingProxyType(
        {
            page.name: Spelling(
                tuple(words.get(page.name, ())),
                writes=written_as(dialect, page) is not None,
                patterns=page.spellings.get(dialect, ()),
            )
            for page in registry.pages().values()
        }
    )
