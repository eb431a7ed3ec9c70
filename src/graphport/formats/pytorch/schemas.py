"""Schemas of PyTorch's operators: names, types and defaults of arguments, from `schemas.txt`, a dump of torch."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MISSING = object()
"""The default of a required argument."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a schema."""

    name: str
    type: str
    default: Any


@dataclass(frozen=True, slots=True)
class Schema:
    """One overload of an operator."""

    name: str
    overload: str
    positional: tuple[Argument, ...]
    keyword: tuple[Argument, ...]
    returns: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments in order."""
        return self.positional + self.keyword

    @property
    def op_type(self) -> str:
        """The operator type in the dialect of PyTorch."""
        return f"aten.{self.name}.{self.overload or 'default'}"


_QUANTIZED_DECOMPOSED = """
quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor
dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor
dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor
dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
"""  # noqa: E501
"""Operators that torch registers when `torch.ao.quantization.fx._decomposed` is imported."""


@cache
def _table() -> Mapping[str, list[str]]:
    text = (files("graphport.formats.pytorch") / "schemas.txt").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        found.setdefault(line[: min(i for i in (line.find("."), line.find("(")) if i >= 0)], []).append(line)
    return found


@cache
def schemas(name: str) -> tuple[Schema, ...]:
    """Return the overloads of an operator in registration order; empty if torch does not have the operator."""
    return tuple(_parsed(line) for line in _table().get(name, ()))


def _parsed(line: str) -> Schema:
    head, _, rest = line.partition("(")
    given, _, returned = rest.rpartition(" -> ")
    positional, _, keyword = given.rstrip(")").partition("*, ")
    name, _, overload = head.partition(".")
    returns = returned.strip("()")
    return Schema(
        name,
        overload,
        tuple(_argument(x) for x in _split(positional)),
        tuple(_argument(x) for x in _split(keyword)),
        tuple(x.split(" ")[0] for x in _split(returns)),
    )


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    return [x.strip() for x in re.split(r",(?![^\[(]*[\])])", text) if x.strip()]


def _argument(text: str) -> Argument:
    declared, equals, default = text.partition("=")
    type_, _, name = declared.rpartition(" ")
    if not equals:
        return Argument(name, type_, MISSING)
    try:
        return Argument(name, type_, ast.literal_eval(default))
    except (ValueError, SyntaxError):
        return Argument(name, type_, default)


@cache
def schema_of(op_type: str) -> Schema | None:
    """Return the schema of an op type of exported programs, for example `aten.add.Tensor`, or `None`."""
    space, _, rest = op_type.partition(".")
    name, _, overload = rest.partition(".")
    known = schemas(name) if space == "aten" else _quantized_schemas() if space == "quantized_decomposed" else ()
    return next((each for each in known if (each.name, each.overload or "default") == (name, overload)), None)


@cache
def _quantized_schemas() -> tuple[Schema, ...]:
    return tuple(_parsed(line) for line in _QUANTIZED_DECOMPOSED.strip().splitlines())
