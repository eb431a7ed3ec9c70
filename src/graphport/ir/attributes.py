"""Attributes of nodes: what they may be, and the bodies among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage


class Body:
    """What a node may have among its attributes besides numbers and texts: a `Graph`, the only kind there is."""

    __slots__ = ()


Attribute: TypeAlias = (
    "bool | int | float | complex | str | bytes | DType | Fact | Storage | Body | tuple[Attribute, ...] | None"
)
"""What an attribute may be; lists are tuples, nested as deep as a format likes."""

PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
"""What most attributes are, and what has no graphs in it."""


class PlainAttributes(dict[str, "Attribute"]):
    """Attributes with no graph among them, which nobody changes once a node has them: nodes alike share them."""

    __slots__ = ()


NO_ATTRIBUTES = PlainAttributes()


def as_key(attributes: Mapping[str, Attribute]) -> tuple[Hashable, ...]:
    """Attributes in their order as what can be looked up: 1, 1.0 and `True` are three, 0.0 and -0.0 two."""
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
    # Without recursion: tuples are nested as deep as a file nests them.
    pending = [attribute]
    while pending:
        item = pending.pop()
        if isinstance(item, Body):
            yield item
        elif isinstance(item, tuple):
            pending.extend(reversed(item))
