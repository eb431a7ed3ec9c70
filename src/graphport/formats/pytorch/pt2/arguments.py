"""Arguments of nodes: tensors and run-time scalars are operands, other arguments are attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pytorch.pt2.schema import (
    MEMORY_FORMATS,
    STRIDED,
    dtype_of,
    fail,
    fields,
    flag,
    float_of,
    integer,
    list_of,
    name_of,
    text,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dtypes import DType
    from graphport.ir.graph import Attribute, Graph, Value

ITEM = "*"
MOST_ITEMS = 1 << 16
_NAMED = ("as_tensor", "as_custom_obj")
_NUMBERS = ("as_sym_int", "as_sym_float", "as_sym_bool")
_NUMBER_LISTS = ("as_sym_ints", "as_sym_floats", "as_sym_bools")


def dtype_name(dtype: DType) -> str:
    """Return PyTorch's name of an element type."""
    return f"torch.{dtype.text}"


@dataclass(slots=True)
class Arguments:
    """Operands and attributes of one node."""

    operands: list[Value | None] = field(default_factory=list["Value | None"])
    keys: list[str] = field(default_factory=list[str])
    attributes: dict[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    numbers: set[int] = field(default_factory=set[int])
    """Indices of operands that are Python scalars instead of tensors."""

    def operand(self, name: str, value: Value | None, *, is_scalar: bool = False) -> None:
        """Add an operand for the parameter `name`."""
        if is_scalar:
            self.numbers.add(len(self.operands))
        self.operands.append(value)
        self.keys.append(name)


class ArgumentReader:
    """Reader of the arguments in one graph: `lookup` finds values by name, `body` builds subgraphs."""

    def __init__(
        self, lookup: Callable[[str], Value], constant: Callable[[TensorFact, Any], Value], body: Callable[[Any], Graph]
    ) -> None:
        self._lookup = lookup
        self._constant = constant
        self._body = body

    def read(self, found: Any, into: Arguments, place: int) -> None:
        """Add the named argument `found`, which has the index `place`.

        Raises:
            SchemaError: `found` is not an argument.
        """
        named = fields(found, "an argument")
        name = text(named.get("name"), "the name of an argument") or str(place)
        if name.startswith("$") or name.endswith(ITEM):
            fail(f"unexpected argument name {name!r}")
        kind, value = union(named.get("arg"), f"the argument {name}")
        if kind in _NAMED:
            into.operand(name, self._lookup(name_of(value, name)))
        elif kind in _NUMBERS:
            self._read_scalar(value, name, into)
        elif kind in ("as_tensors", "as_optional_tensors"):
            self._tensors(kind, value, name, into)
        elif kind == "as_optional_tensor":
            self._tensors("as_optional_tensors", [value], name, into)
            into.keys[-1] = name
        elif kind in _NUMBER_LISTS:
            self._read_scalars(value, name, into)
        elif kind == "as_graph":
            into.attributes[name] = self._body(value)
        else:
            into.attributes[name] = attribute_of(kind, value, name)

    def _read_scalar(self, value: Any, name: str, into: Arguments) -> None:
        inner, chosen = union(value, f"the argument {name}")
        if inner == "as_name":
            into.operand(name, self._lookup(text(chosen, name)), is_scalar=True)
        else:
            into.attributes[name] = _literal(inner, chosen, name)

    def _tensors(self, kind: str, value: Any, name: str, into: Arguments) -> None:
        given = _listed(value, name)
        if not given:
            into.attributes[name] = ()
        for item in given:
            if kind == "as_tensors":
                into.operand(f"{name}{ITEM}", self._lookup(name_of(item, name)))
                continue
            chosen, inner = union(item, name)
            if chosen not in ("as_tensor", "as_none"):
                fail(f"an item of {name} is {chosen}")
            into.operand(f"{name}{ITEM}", self._lookup(name_of(inner, name)) if chosen == "as_tensor" else None)

    def _read_scalars(self, value: Any, name: str, into: Arguments) -> None:
        """Add a list of scalars, some of them computed at run time; the static ones are constants."""
        given = [union(item, name) for item in _listed(value, name)]
        if all(kind != "as_name" for kind, _ in given):
            into.attributes[name] = tuple(_literal(kind, item, name) for kind, item in given)
            return
        for kind, item in given:
            if kind == "as_name":
                into.operand(f"{name}{ITEM}", self._lookup(text(item, name)), is_scalar=True)
                continue
            storage = storage_of(_literal(kind, item, name))
            into.operand(f"{name}{ITEM}", self._constant(TensorFact.of(storage), storage), is_scalar=True)


def _listed(value: Any, name: str) -> list[Any]:
    found = list_of(value, name)
    return found if len(found) <= MOST_ITEMS else fail(f"{name} has {len(found)} items")


def _literal(kind: str, value: Any, name: str) -> Any:
    match kind:
        case "as_int":
            return integer(value, name)
        case "as_float":
            return float_of(value, name)
        case "as_bool":
            return flag(value, name)
        case _:
            return fail(f"{name} is {kind}, expected a number")


def attribute_of(kind: str, value: Any, name: str) -> Attribute:
    """Return the attribute for an argument that is static and not a tensor.

    Raises:
        SchemaError: the value does not match its declared kind.
    """
    match kind:
        case "as_none":
            return None
        case "as_int" | "as_float" | "as_bool":
            return _literal(kind, value, name)
        case "as_string":
            return text(value, name)
        case "as_ints" | "as_floats" | "as_bools":
            return tuple(_literal(kind[:-1], item, name) for item in _listed(value, name))
        case "as_strings":
            return tuple(text(item, name) for item in _listed(value, name))
        case "as_int_lists" | "as_float_lists":
            return tuple(attribute_of(kind[:-6] + "s", item, name) for item in _listed(value, name))
        case "as_complex":
            parts = fields(value, name)
            return complex(float_of(parts.get("real"), name), float_of(parts.get("imag"), name))
        case "as_scalar_type":
            return dtype_name(dtype_of(value, name))
        case "as_memory_format":
            return MEMORY_FORMATS.get(integer(value, name), str(value))
        case "as_layout":
            return "strided" if value == STRIDED else f"layout {integer(value, name)}"
        case "as_device":
            return text(fields(value, name).get("type", "cpu"), name)
        case _:
            # The node stays opaque.
            return f"unsupported {kind}"
