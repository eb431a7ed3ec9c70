"""The types of NNEF expressions, and their implicit casts.

Types are interned, so that comparisons are cheap: create them with `tensor_of`, `array_of` and `tuple_of`. Their
nesting is limited by the setting `type_nesting`, so functions on them may recurse.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from graphport.formats.nnef.container.syntax import ArrayType, Edition, TensorType, TupleType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.nnef.container.syntax import TypeExpression


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type by its final name: integer (provisional: extent), scalar, logical, string, or `?`.

    Inside tensors also `any`: the unnamed data-type of a provisional `tensor`.
    """

    name: str


@dataclass(frozen=True, slots=True)
class TensorOf:
    """A tensor; `item` is `None` for `tensor<>`, of which only the shape matters."""

    item: Primitive | None


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array; `item` is `None` for `[]`, which is every kind of array."""

    item: Type | None


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple of two or more."""

    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The type of an expression with a reported error; it is compatible with every type."""


Type: TypeAlias = Primitive | TensorOf | ArrayOf | TupleOf | Unknown

INTEGER = Primitive("integer")
SCALAR = Primitive("scalar")
LOGICAL = Primitive("logical")
STRING = Primitive("string")
GENERIC = Primitive("?")
ANY = Primitive("any")
UNKNOWN = Unknown()
PRIMITIVES = {each.name: each for each in (INTEGER, SCALAR, LOGICAL, STRING, GENERIC)}


@cache
def tensor_of(item: Primitive | None) -> TensorOf:
    """Return the type `tensor<item>`."""
    return TensorOf(item)


@cache
def array_of(item: Type | None) -> ArrayOf:
    """Return the type `item[]`."""
    return ArrayOf(item)


@cache
def tuple_of(*items: Type) -> TupleOf:
    """Return the tuple type of `items`."""
    return TupleOf(items)


EMPTY = array_of(None)
INTEGERS = array_of(INTEGER)


def declared(node: TypeExpression) -> Type:
    """Convert a type expression to a type; a provisional `tensor` has items of type `ANY`."""
    match node:
        case ArrayType():
            return array_of(declared(node.item))
        case TupleType():
            return tuple_of(*map(declared, node.items))
        case TensorType():
            return tensor_of(None if node.item is None else PRIMITIVES[node.item])
        case _ if node.text == "tensor":
            return tensor_of(ANY)
        case _:
            return INTEGER if node.text == "extent" else PRIMITIVES[node.text]


def type_name(of: Type, edition: Edition = Edition.FINAL) -> str:
    """Format a type in the syntax of `edition`."""
    match of:
        case Primitive():
            return "extent" if of is INTEGER and edition is Edition.PROVISIONAL else of.name
        case TensorOf():
            if of.item is ANY:
                return "tensor"
            if edition is Edition.PROVISIONAL:
                return "tensor" if of.item is None else f"tensor of {_DATA.get(of.item.name, of.item.name)} data"
            return f"tensor<{'' if of.item is None else of.item.name}>"
        case ArrayOf():
            return "[]" if of.item is None else f"{type_name(of.item, edition)}[]"
        case TupleOf():
            return f"({', '.join(type_name(item, edition) for item in of.items)})"
        case Unknown():
            return "an unknown type"


_DATA = {"integer": "coordinate"}


def leaf_types(of: Type) -> Iterator[Primitive | TensorOf]:
    """Yield the leaf types of `of`."""
    match of:
        case Primitive() | TensorOf():
            yield of
        case ArrayOf(Primitive() | TensorOf() | ArrayOf() | TupleOf() as item):
            yield from leaf_types(item)
        case TupleOf():
            for item in of.items:
                yield from leaf_types(item)
        case _:
            return


def holds_tensors(of: Type) -> bool:
    """Whether `of` is or contains a tensor type."""
    return any(isinstance(part, TensorOf) for part in leaf_types(of))


def holds_attributes(of: Type) -> bool:
    """Whether `of` is or contains a compile-time type."""
    return any(isinstance(part, Primitive) for part in leaf_types(of))


def is_generic(of: Type) -> bool:
    """Whether `of` contains `?`."""
    return any(part is GENERIC or (isinstance(part, TensorOf) and part.item is GENERIC) for part in leaf_types(of))


@cache
def casts(of: Type) -> bool:
    """Whether values of type `of` may need casts: numbers to tensors, integers to scalars."""
    return any(isinstance(part, TensorOf) or part is SCALAR for part in leaf_types(of))


def with_generic(of: Type, chosen: Primitive) -> Type:
    """Replace `?` in a type by `chosen`."""
    match of:
        case Primitive():
            return chosen if of is GENERIC else of
        case TensorOf():
            return tensor_of(chosen) if of.item is GENERIC else of
        case ArrayOf():
            return of if of.item is None else array_of(with_generic(of.item, chosen))
        case TupleOf():
            return tuple_of(*(with_generic(item, chosen) for item in of.items))
        case Unknown():
            return of


def castable(given: Type, wanted: Type) -> bool:
    """Whether `given` can be implicitly cast to `wanted`."""
    if given is wanted or given is UNKNOWN or wanted is UNKNOWN:
        return True
    match given, wanted:
        case Primitive(), Primitive():
            return wanted is GENERIC
        case Primitive(), TensorOf():
            if given is STRING:
                return False
            return wanted.item is None or wanted.item in (given, GENERIC) or _is_any(given, wanted.item)
        case TensorOf(), TensorOf():
            if wanted.item is None or ANY in (given.item, wanted.item):
                return True
            return wanted.item is GENERIC and given.item is not None
        case ArrayOf(), ArrayOf():
            return given.item is None or (wanted.item is not None and castable(given.item, wanted.item))
        case TupleOf(), TupleOf() if len(given.items) == len(wanted.items):
            return all(map(castable, given.items, wanted.items))
        case _:
            return False


def _is_any(given: Primitive, item: Primitive) -> bool:
    # The provisional edition casts scalars and logicals to tensors, and nothing else.
    return item is ANY and given in (SCALAR, LOGICAL)


def common(first: Type, second: Type) -> Type | None:
    """Return the type to which the other one casts; `None` if neither does."""
    if castable(first, second):
        return second if first is not UNKNOWN else first
    return first if castable(second, first) else None


def generic_choices(declaration: Type, given: Type) -> Iterator[Primitive]:
    """Yield the types of `?` in `declaration` that match `given`."""
    match declaration, given:
        case Primitive(), Primitive() if declaration is GENERIC:
            yield given
        case TensorOf(), Primitive() if declaration.item is GENERIC:
            yield given
        case TensorOf(), TensorOf(Primitive() as item) if declaration.item is GENERIC:
            yield item
        case ArrayOf(Primitive() | TensorOf() | ArrayOf() | TupleOf() as inner), ArrayOf(
            Primitive() | TensorOf() | ArrayOf() | TupleOf() as item
        ):
            yield from generic_choices(inner, item)
        case TupleOf(), TupleOf():
            for inner, item in zip(declaration.items, given.items, strict=False):
                yield from generic_choices(inner, item)
        case _:
            return
