"""Op pages as a person reads them: signature, element types, versions, and the words of other languages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from types import CodeType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from graphport.ops import registry
from graphport.ops.declare import LIFTINGS, LOWERINGS, Page

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    return (import_module(registry.PAGES_ROOT + name).__doc__ or name).strip().splitlines()[0]


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


@cache
def registered(dialect: str) -> Mapping[str, tuple[str, ...]]:
    """Every word of a dialect that is read, with the operators that it is said with."""
    found = {word: [page.name for page, _ in stated] for word, stated in registry.patterns(dialect).items()}
    registry.load(dialect)
    for (language, word), rules in LOWERINGS.items():
        if language == dialect:
            named = [page.name for rule in rules for page in _pages_named_by(rule.function)]
            found[word] = [*found.get(word, ()), *named]
    if dialect == "onnx":
        for name in registry.pages():
            found.setdefault(name, []).insert(0, name)
    return MappingProxyType({word: tuple(dict.fromkeys(found[word])) for word in sorted(found)})


@cache
def spellings(dialect: str) -> Mapping[str, Spelling]:
    """How every operator and the words of a dialect go together, by the operator's name."""
    words: dict[str, list[str]] = {}
    for word, names in registered(dialect).items():
        for name in names:
            words.setdefault(name, []).append(word)
    return MappingProxyType(
        {
            page.name: Spelling(
                tuple(words.get(page.name, ())),
                writes=dialect == "onnx" or (dialect, page.name) in LIFTINGS or dialect in page.spellings,
                patterns=page.spellings.get(dialect, ()),
            )
            for page in registry.pages().values()
        }
    )


def _pages_named_by(function: Any) -> Iterator[Page]:
    """The pages that a rule names, itself or through functions of the families that it calls."""
    pending: list[Any] = [function]
    seen: set[int] = set()
    while pending:
        item = pending.pop(0)
        if isinstance(item, partial):
            pending += [item.func, *item.args]
        elif isinstance(item, Page):
            yield item
        elif isinstance(item, FunctionType) and item.__module__.startswith("graphport.ops.") and id(item) not in seen:
            seen.add(id(item))
            closed = inspect.getclosurevars(item).nonlocals
            pending += closed.values()
            pending += [item.__globals__[name] for name in _names(item.__code__) if name in item.__globals__]


def _names(code: CodeType) -> list[str]:
    """Names that a function looks up, those of functions and comprehensions inside of it, too."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]
