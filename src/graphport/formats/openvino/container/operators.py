"""The operations of OpenVINO's operation sets, and their attributes as typed values and as text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from graphport.core.dtypes import DType
from graphport.formats.openvino.container import elements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Attribute

NEWEST = 17
"""The newest operation set of the table."""

Kind = Literal["int", "float", "bool", "enum", "text", "type", "shape", "ints", "floats", "strs"]

_VERSION = re.compile(r"opset([1-9]\d{0,3})")
_WEIGHTS = "weights@"
BROADCAST = "auto_broadcast"
BROADCAST_AXIS = "auto_broadcast.auto_broadcast_axis"
"""Where the axes of other operands begin; files have it where `auto_broadcast` is `pdpd`, and no others."""
_MOST_ITEMS = 1024  # the longest lists there are give a number for each axis, or for each of some dozens of anchors
_MOST_REMEMBERED = 1 << 12  # bounds memory: file content is not trusted
_INT = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_LEADING_INT = re.compile(r"-?\d{1,40}", re.ASCII)
_LEADING_FLOAT = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:e[+-]?\d{1,9})?(?![ex])", re.ASCII)
_RENAMED = frozenset({"MVN", "ROIPooling", "ReorgYolo"})
"""Operations of opset2 that files declare as opset1."""
_EXTENSIONS = frozenset({"experimental", "extension"})
"""Versions of operations that were none of any set before the sixth."""
_EXTENSION_SET = 6
_EXTENDED = frozenset({"grucell", "proposal", "rnncell"})
_EXTENDED_FAMILY = "experimentaldetectron"

_ENUMS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "auto_broadcast": frozenset({"none", "explicit", "numpy", "pdpd"}),
        "auto_pad": frozenset({"explicit", "same_lower", "same_upper", "valid", "notset"}),
        "rounding_type": frozenset({"floor", "ceil", "ceil_torch"}),
        "pad_mode": frozenset({"constant", "edge", "reflect", "symmetric"}),
        "direction": frozenset({"forward", "reverse", "bidirectional"}),
    }
)
"""Values of enumerations, where OpenVINO refuses any other."""


class UnreadableError(ValueError):
    """An attribute's text cannot be parsed; `taken` is the value of the prefix that OpenVINO parses."""

    def __init__(self, message: str, taken: Attribute = None) -> None:
        super().__init__(message)
        self.taken = taken


@dataclass(frozen=True, slots=True)
class Keyword:
    """One attribute: its name in files, its kind, and its default as text (`None` where there is none)."""

    spelling: str
    kind: Kind
    text: str | None

    @property
    def name(self) -> str:
        """The attribute's name in graphs, a valid Python identifier: `exclude_pad` for `exclude-pad`."""
        return self.spelling.rpartition(".")[2].replace("-", "_")


class Weights(NamedTuple):
    """The operand that holds weights, and its channel axes."""

    operand: int
    axes: tuple[int, ...]

    def channels(self, rank: int, *, swaps: bool) -> tuple[int, ...]:
        """Return the channel axes for a tensor of that rank; `swaps` means that its last two axes are transposed."""
        swapped = {-1: -2, -2: -1} if swaps else {}
        return tuple(swapped.get(axis, axis) % rank for axis in self.axes)


@dataclass(frozen=True)
class Operator:
    """One version of one operation."""

    type: str
    first: int
    last: int
    keywords: tuple[Keyword, ...] = ()
    defaults: Mapping[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    weights: Weights | None = None

    @property
    def op_type(self) -> str:
        """The op type of nodes: `opset1.Reshape`."""
        return f"opset{self.first}.{self.type}"


@cache
def table() -> Mapping[str, tuple[Operator, ...]]:
    """The versions of each operation, oldest first, by its name in lower case."""
    found: dict[str, list[Operator]] = {}
    text = (files("graphport.formats.openvino.container") / "operators.txt").read_text("utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            operator = _operator(line)
            found.setdefault(operator.type.lower(), []).append(operator)
    return MappingProxyType({name: tuple(sorted(versions, key=lambda o: o.first)) for name, versions in found.items()})


def _operator(line: str) -> Operator:
    name, sets, *stated = line.split(" ")
    first, last = sets.split("-")
    keywords: list[Keyword] = []
    weights: Weights | None = None
    for part in stated:
        if part.startswith(_WEIGHTS):
            operand, _, axes = part.removeprefix(_WEIGHTS).partition(":")
            weights = Weights(int(operand), tuple(map(int, axes.split(","))))
            continue
        head, separator, default = part.partition("=")
        spelling, kind = head.split(":")
        if kind not in get_args(Kind):
            message = f"unknown attribute kind {kind!r}"
            raise ValueError(message)
        keywords.append(Keyword(spelling, kind, default if separator else None))  # pyright: ignore[reportArgumentType]
        if spelling == BROADCAST:
            keywords.append(Keyword(BROADCAST_AXIS, "int", "0"))
    defaults = {k.name: read(k, k.text) for k in keywords if k.text is not None and k.kind != "shape"}
    return Operator(name, int(first), int(last), tuple(keywords), MappingProxyType(defaults), weights)


@lru_cache(_MOST_REMEMBERED)
def operator(type: str, version: str) -> Operator | None:
    """Return the operation that a layer's type (in any case) and version identify, or `None`."""
    versions = table().get(type.lower(), ())
    number = set_of(version)
    if version in _EXTENSIONS and not _is_extension(type.lower()):
        number = None
    if number is None:
        return None
    if number == 1 and versions and versions[0].type in _RENAMED:
        number = versions[0].first
    if number > NEWEST:
        return None
    return next((found for found in reversed(versions) if found.first <= number), None)


def set_of(version: str) -> int | None:
    """Return the number in a layer's version: 8 for `opset8`."""
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match is not None else _EXTENSION_SET if version in _EXTENSIONS else None


def _is_extension(type: str) -> bool:
    return type in _EXTENDED or type.startswith(_EXTENDED_FAMILY)


@lru_cache(_MOST_REMEMBERED)
def find_operator(op_type: str) -> Operator | None:
    """Return the operation with the op type `op_type`."""
    version, _, type = op_type.partition(".")
    found = operator(type, version)
    return found if found is not None and found.op_type == op_type else None


def read(keyword: Keyword, text: str) -> Attribute:
    """Parse the text of an attribute.

    Raises:
        UnreadableError: reports the expected form.
    """
    match keyword.kind:
        case "int":
            return _int(text)
        case "float":
            return _float(text)
        case "bool":
            return _bool(text)
        case "enum":
            return _enum(keyword.spelling, text)
        case "type":
            return _type(text)
        case "ints":
            return _parse_list(text, _int)
        case "floats":
            return _parse_list(text, _float)
        case "strs":
            return tuple(item.lower() for item in _split_list(text))
        case "text" | "shape":
            return text


def _split_list(text: str) -> list[str]:
    if text.count(",") >= _MOST_ITEMS:
        message = f"the list has {text.count(',') + 1} items, the limit is {_MOST_ITEMS}"
        raise UnreadableError(message)
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _parse_list(text: str, number: Callable[[str], float]) -> tuple[float, ...]:
    items = _split_list(text)
    complaint = ""
    if items and not items[-1]:
        complaint = f"{text[:60]!r} ends with a comma"
        items.pop()
    found: list[float] = []
    for item in items:
        try:
            found.append(number(item))
        except UnreadableError as error:
            if not isinstance(error.taken, int | float):
                raise
            complaint = str(error)
            found.append(error.taken)
    if complaint:
        raise UnreadableError(complaint, tuple(found))
    return tuple(found)


def _int(text: str) -> int:
    stripped = text.strip()
    if _INT.fullmatch(stripped) is None:
        leading = _LEADING_INT.match(stripped)
        message = f"{text[:60]!r} is not an integer"
        raise UnreadableError(message, None if leading is None else _int(leading[0]))
    number = int(stripped)
    if not -(1 << 63) <= number < 1 << 64:
        message = f"{stripped} exceeds the int64 range"
        raise UnreadableError(message)
    return number


def _float(text: str) -> float:
    stripped = text.strip().lower()
    try:
        number = float(stripped.replace("_", "!"))
    except ValueError as error:
        leading = _LEADING_FLOAT.match(stripped)
        message = f"{text[:60]!r} is not a number"
        raise UnreadableError(message, None if leading is None else float(leading[0])) from error
    if math.isnan(number):
        # OpenVINO takes it, and every result is NaN.
        message = f"{text[:60]!r} is not a number; OpenVINO reads it as NaN"
        raise UnreadableError(message)
    if math.isinf(number) and "inf" not in stripped:
        message = f"{text[:60]!r} exceeds the float64 range"
        raise UnreadableError(message)
    return number


def _bool(text: str) -> bool:
    match text.lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
        case _:
            message = f"{text[:60]!r} is neither true nor false"
            raise UnreadableError(message)


def _enum(name: str, text: str) -> str:
    lower = text.lower()
    allowed = _ENUMS.get(name)
    if allowed is not None and lower not in allowed:
        message = f"{text[:60]!r}, expected one of {', '.join(sorted(allowed))}"
        raise UnreadableError(message)
    return lower


def _type(text: str) -> DType | str | None:
    lower = text.lower()
    if not elements.is_element_type(lower):
        message = f"{text[:60]!r} is not an element type"
        raise UnreadableError(message)
    return None if lower in elements.OPEN else elements.DTYPES.get(lower, lower)


def format_attribute(keyword: Keyword, value: Any) -> str:
    """Format the value of an attribute as OpenVINO writes it."""
    match keyword.kind:
        case "int":
            return str(int(value))
        case "bool":
            return "true" if value else "false"
        case "float":
            return _format_number(float(value))
        case "ints":
            return ", ".join(str(int(item)) for item in value)
        case "floats":
            return ", ".join(_format_number(float(item)) for item in value)
        case "strs":
            return ", ".join(value)
        case "type":
            return "dynamic" if value is None else elements.NAMES[value] if isinstance(value, DType) else str(value)
        case "enum" | "text" | "shape":
            return str(value)


def _format_number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return str(value)
    return f"{value:.17g}"
