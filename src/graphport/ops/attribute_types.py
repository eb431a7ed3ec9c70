"""Types of attributes: whether a node's attribute is of the type that a signature declares."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from graphport.core.sequences import is_sequence

_NONE = " | None"


@cache
def type_name(annotation: Any) -> str:
    """The name of a type as annotations spell it."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def is_of_type(attribute: object, annotation: Any) -> bool:
    """Whether an attribute is of an annotated type; true where the type is none of numbers, strings and tuples of them.

    An integer is a float as well.
    """
    name = type_name(annotation)
    if attribute is None:
        return True
    base = name.removesuffix(_NONE)
    if base.startswith("tuple["):
        allowed = _SCALARS.get(base.removeprefix("tuple[").removesuffix(", ...]"))
        return allowed is None or (is_sequence(attribute) and all(isinstance(each, allowed) for each in attribute))
    allowed = _SCALARS.get(base)
    return allowed is None or isinstance(attribute, allowed)


_SCALARS: dict[str, Any] = {
    "int": (int, np.integer),
    "bool": (int, np.bool_),
    "float": (int, float, np.number),
    "number": (int, float, np.number),
    "str": str,
}
