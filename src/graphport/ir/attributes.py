"""Attributes of nodes: types, and the bodies among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage


class Body:
    """A `Graph` as an attribute; the protocol avoids an import cycle."""

    __slots__ = ()


Attribute: TypeAlias = (
    "bool | int | float | complex | str | bytes | DType | Fact | Storage | Body | tuple[Attribute, ...] | None"
)
"""The type of an attribute; lists are tuples of any nesting."""

PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
"""The common attribute types without graphs."""


class PlainAttributes(dict[str, "Attribute"]):
    """Immutable attributes without graphs, shared by equal nodes."""

    __slots__ = ()


NO_ATTRIBUTES = PlainAttributes()


def as_key(attributes: Mapping[str, Attribute]) -> tuple[Hashable, ...]:
    """Return a hashable key of ordered attributes that distinguishes 1, 1.0 and True, and 0.0 and -0.0."""
    if not attributes:
        return ()
    kinds = [repr(each) if type(each) in _SIGNED else type(each) for each in attributes.values()]
    return (*attributes.items(), *kinds)


_SIGNED = frozenset((float, complex, tuple))


def bodies_among(attributes: Mapping[str, Attribute]) -> Sequence[Body]:
    """The graphs among attributes; of most nodes none, which is found without a generator."""
    found: Sequence[Body] = ()
    for attribute in attributes.values():
        kind = type(attribute)
        if kind is tuple and PLAIN.issuperset(map(type, cast("tuple[Any, ...]", attribute))):
            continue
        if kind not in PLAIN:
            found = [*found, *bodies_in(attribute)]
    return found


def bodies_in(attribute: Attribute) -> Iterator[Body]:
    """The graphs in one attribute, in their order."""
    if type(attribute) in PLAIN or (type(attribute) is tuple and PLAIN.issuperset(map(type, attribute))):
        return
    # Iterative, because tuples have the nesting depth of the file.
    pending = [attribute]
    while pending:
        item = pending.pop()
        if isinstance(item, Body):
            yield item
        elif isinstance(item, tuple):
            pending.extend(reversed(item))
