"""The signatures of TensorFlow's operators, from `operators.txt`: results in order, and defaults of attributes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from graphport.formats.tensorflow.container.schema import DTYPES

_TYPES = {
    "DT_FLOAT": 1,
    "DT_DOUBLE": 2,
    "DT_INT32": 3,
    "DT_UINT8": 4,
    "DT_INT16": 5,
    "DT_INT8": 6,
    "DT_STRING": 7,
    "DT_COMPLEX64": 8,
    "DT_INT64": 9,
    "DT_BOOL": 10,
    "DT_UINT16": 17,
    "DT_COMPLEX128": 18,
    "DT_HALF": 19,
    "DT_UINT32": 22,
    "DT_UINT64": 23,
    "DT_BFLOAT16": 14,
}


@dataclass(frozen=True, slots=True)
class Operator:
    """The signature of an operator."""

    name: str
    results: tuple[tuple[str, str], ...]
    """The name of each result, and the attribute that gives the number of its tensors, empty for one tensor."""
    defaults: dict[str, Any]
    is_stateful: bool


@cache
def _lines() -> dict[str, str]:
    text = files("graphport.formats.tensorflow.container").joinpath("operators.txt").read_text(encoding="utf-8")
    return {line.split("\t", 1)[0].rstrip("!"): line for line in text.splitlines()}


@cache
def operator(name: str) -> Operator | None:
    """The signature of an operator; `None` if the table has none."""
    line = _lines().get(name)
    if line is None:
        return None
    head, _, results, defaults = (*line.split("\t"), "", "", "")[:4]
    parsed = {key: _default(value) for key, value in json.loads(defaults or "{}").items()}
    pairs = tuple((each.partition("*")[0], each.partition("*")[2]) for each in results.split())
    return Operator(name, pairs, parsed, head.endswith("!"))


def _default(value: Any) -> Any:
    match value:
        case {"type": str(name)}:
            return DTYPES.get(_TYPES.get(name, 0))
        case {"shape": shape}:
            return None if shape is None else tuple(cast("list[int]", shape))
        case [*elements]:
            return tuple(map(_default, elements))
        case _:
            return value
