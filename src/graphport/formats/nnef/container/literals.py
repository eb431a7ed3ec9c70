"""Values as literals of NNEF: exact, and as short as they can be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.nnef.container.lexer import LARGEST_INTEGER, string_literal
from graphport.formats.nnef.container.syntax import Array, Logical, Number, String, Tuple, Unary
from graphport.formats.nnef.container.types import SCALAR, ArrayOf, TupleOf

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.syntax import Expression
    from graphport.formats.nnef.container.types import Type

_DATA = {"f": "scalar", "i": "integer", "u": "integer", "b": "logical"}


class Unspellable(Exception):  # noqa: N818  becomes a finding with a place
    """A value has no literal; the message is the reason, `remedy` a suggestion."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


def data_of(dtype: DType | None) -> str | None:
    """The data-type of tensors with elements of `dtype`; `None` where NNEF has none."""
    return None if dtype is None else _DATA.get(dtype.kind)


def attribute_text(value: object, of: Type | None, *, allows_minus: bool = True) -> str:
    """Format `value` as a literal of type `of`, or of its Python type.

    Raises:
        Unspellable: an infinite number, a symbolic dim, or a negative number in the provisional edition.
    """
    if isinstance(value, tuple):
        return _listed(cast("tuple[object, ...]", value), of, allows_minus=allows_minus)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if not value.isascii() or not value.isprintable():
            raise Unspellable(f"the string {value!r} has characters beyond printable ASCII")
        return string_literal(value)
    if isinstance(value, DType):
        raise Unspellable(f"{value} cannot be written in NNEF")
    if isinstance(value, int):
        text = f"{value}.0" if of is SCALAR else _integer(value)
    elif isinstance(value, float):
        text = _format_float(repr(value))
    else:
        raise Unspellable(f"{value} depends on an unknown extent" if isinstance(value, Symbolic) else _what(value))
    return _signed(text, allows_minus=allows_minus)


def _what(value: object) -> str:
    return f"NNEF has no type {type(value).__name__}"


def _listed(value: tuple[object, ...], of: Type | None, *, allows_minus: bool) -> str:
    if isinstance(of, TupleOf) and len(of.items) == len(value):
        pairs = zip(value, of.items, strict=True)
        return f"({', '.join(attribute_text(item, kind, allows_minus=allows_minus) for item, kind in pairs)})"
    inner = of.item if isinstance(of, ArrayOf) else None
    return f"[{', '.join(attribute_text(item, inner, allows_minus=allows_minus) for item in value)}]"


def _integer(value: int) -> str:
    if not -LARGEST_INTEGER - 1 <= value <= LARGEST_INTEGER:
        raise Unspellable(f"{value} does not fit in 64 bits")
    return str(value)


def _format_float(shortest: str) -> str:
    """A number as Python or NumPy shows it, without the plus in the exponent that some readers do not know."""
    if shortest.lstrip("-") in ("inf", "nan"):
        raise Unspellable(f"{shortest} has no NNEF literal")
    return shortest.replace("e+", "e")


def _signed(text: str, *, allows_minus: bool) -> str:
    if text[0] == "-" and not allows_minus:
        raise Unspellable(f"the provisional edition has no literal for the negative number {text}")
    return text


def literal_text(storage: Storage, *, allows_minus: bool = True) -> str | None:
    """Format a tensor of rank 0 as a literal; return `None` if it has none.

    Floats are written with the fewest digits that give the same float32 (or float64).
    """
    if storage.shape:
        return None
    try:
        return constant_texts(storage, allows_minus=allows_minus)[0]
    except Unspellable:
        return None


def constant_texts(storage: Storage, *, allows_minus: bool = True) -> list[str]:
    """Format every element of `storage` as a literal, in order.

    Raises:
        Unspellable: an element has no literal.
    """
    if data_of(storage.dtype) is None:
        raise Unspellable(f"NNEF has no literals of type {storage.dtype}")
    flat = storage.numpy().reshape(-1)
    if storage.dtype.kind == "b":
        return ["true" if each else "false" for each in flat.tolist()]
    if storage.dtype.is_integer:
        texts = [_integer(int(each)) for each in flat]
    elif storage.dtype is DType.FLOAT64:
        texts = [_format_float(repr(each)) for each in flat.tolist()]
    else:
        texts = [_format_float(str(each)) for each in flat.astype(np.float32)]
    return [_signed(text, allows_minus=allows_minus) for text in texts]


def default_of(node: Expression) -> object:
    """Return the value of a default expression, which consists of literals."""
    match node:
        case Number() | String() | Logical():
            return node.value
        case Unary(operator="-", operand=Number() as number):
            return -number.value
        case Array() | Tuple():
            return tuple(default_of(item) for item in node.items)
        case _:
            raise TypeError(node)


def is_default(value: object, default: object) -> bool:
    """Whether `value` equals the default of a parameter."""
    if isinstance(value, tuple):
        return isinstance(default, tuple) and value == default
    if isinstance(value, bool) != isinstance(default, bool) or value != default:
        return False
    return not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, float(str(default)))
