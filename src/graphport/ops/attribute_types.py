"""Type checks of attributes against the annotations of a signature."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from graphport.core.sequences import is_sequence

_NONE = " | None"


@cache
def type_name(annotation: Any) -> str:
    """Return the name of a type as annotations write it."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def is_of_type(attribute: object, annotation: Any) -> bool:
    """Whether an attribute has an annotated type; true for annotations other than numbers, strings and tuples of them.

    An integer is also accepted as a float.
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
