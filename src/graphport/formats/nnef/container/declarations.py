"""Declared operations: formal parameters, results and types of standard operations and fragments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.parser import parse_fragments
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.types import PRIMITIVES, Primitive, Type, casts, declared, holds_tensors, tuple_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.nnef.container.syntax import Expression, Fragment

_FILES = {Edition.FINAL: "stdlib.nnef", Edition.PROVISIONAL: "provisional.nnef"}
_DECLARATION = re.compile(r"^fragment (\w+).*?;$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal parameter; `default` is its literal, or `None` if an argument is required."""

    name: str
    type: Type
    default: Expression | None
    takes_tensors: bool
    is_cast: bool
    """Whether values given for it may have to be cast."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Declaration:
    """A callable operation.

    `generic` is the default of `?` (`?` itself means no default); `None` if the operation is not generic.
    """

    name: str
    formals: tuple[Formal, ...]
    results: tuple[tuple[str, Type], ...]
    is_generic: bool
    generic_default: Primitive | None
    fragment: Fragment
    is_standard: bool
    is_provisional: bool = False
    """Whether it is a standard operation of the provisional edition."""

    def __repr__(self) -> str:
        return f"Declaration({self.name})"

    @property
    def result_type(self) -> Type:
        """The type of a call: that of the only result, or the tuple of all."""
        return self.results[0][1] if len(self.results) == 1 else tuple_of(*(each for _, each in self.results))

    @property
    def is_expanded(self) -> bool:
        """Whether a call is replaced by the statements of a fragment's body."""
        return self.fragment.body is not None

    def index(self, name: str) -> int | None:
        """Position of the parameter `name`."""
        return next((index for index, formal in enumerate(self.formals) if formal.name == name), None)


def declaration_of(fragment: Fragment, *, is_standard: bool = False, is_provisional: bool = False) -> Declaration:
    """Return the declaration of `fragment`: parameters, results and generic type."""
    generic = fragment.generic
    formals: list[Formal] = []
    for parameter in fragment.parameters:
        written = declared(parameter.type)
        formals.append(Formal(parameter.name.text, written, parameter.default, holds_tensors(written), casts(written)))
    return Declaration(
        fragment.name.text,
        tuple(formals),
        tuple((result.name.text, declared(result.type)) for result in fragment.results),
        generic is not None,
        None if generic is None or generic.default is None else PRIMITIVES[generic.default],
        fragment,
        is_standard,
        is_provisional,
    )


class Library(Mapping[str, Declaration]):
    """The standard operations of an edition by name, parsed on first access."""

    def __init__(self, source: Source, *, is_provisional: bool = False) -> None:
        self.source = source
        self._is_provisional = is_provisional
        self._texts = {match[1]: match[0] for match in _DECLARATION.finditer(source.text or "")}
        self._read: dict[str, Declaration] = {}

    def __getitem__(self, name: str) -> Declaration:
        found = self._read.get(name)
        if found is None:
            (fragment,) = parse_fragments(Source(self.source.name, self._texts[name]))
            found = declaration_of(fragment, is_standard=True, is_provisional=self._is_provisional)
            self._read[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@cache
def standard(edition: Edition) -> Library:
    """The standard operations of `edition`: 118 final ones, 85 provisional ones."""
    path = Path(__file__).with_name(_FILES[edition])
    source = Source(path.name, path.read_text(encoding="ascii"))
    return Library(source, is_provisional=edition is Edition.PROVISIONAL)


@dataclass(frozen=True)
class Operations:
    """All operations that a document can call: standard ones, its own, and those of vendors' extensions.

    `unread` are fragments whose declaration has syntax errors; `prefixes` begin the names of vendors' operations.
    """

    library: Library
    own: Mapping[str, Declaration]
    unread: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def find(self, name: str) -> Declaration | None:
        """Return the declaration of `name`, that of the document first; `None` if there is no valid one."""
        return self.own.get(name) or self.library.get(name)

    def is_opaque(self, name: str) -> bool:
        """Whether `name` may be called although its declaration is not known."""
        return name in self.unread or "" in self.unread or bool(self.prefixes and name.startswith(self.prefixes))

    def names(self) -> Iterator[str]:
        """All declared names."""
        yield from self.own
        yield from self.library
