"""Quantization of values: the contents of the quantization file, and variables stored as codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import CHUNK, Storage
from graphport.formats.nnef.container.item_types import elements_of, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.formats.nnef.container.operation import Attribute
    from graphport.ir.graph import Graph, Value

Array: TypeAlias = "np.ndarray[Any, Any]"

QUANTIZATION = "quantization"
"""Note of a value with its `Quantization`."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """How one tensor is quantized: an operation and its parameters, per-channel ones as nested tuples."""

    operation: str
    arguments: Mapping[str, Attribute]
    span: Span | None = None


def quantization_of(value: Value) -> Quantization | None:
    """Return the quantization of `value` from the file."""
    found = value.notes.get(QUANTIZATION) if value.has_notes else None
    return found if isinstance(found, Quantization) else None


def quantizations(graph: Graph) -> dict[str, Quantization]:
    """The quantizations of a graph by the names of its values."""
    return {value.name: found for value in graph.values() if (found := quantization_of(value)) is not None}


@dataclass(frozen=True, slots=True)
class Affine:
    """Affine quantization: real = (code - zero_point) * scale; parameters broadcast, aligned from the left."""

    scale: Array
    zero_point: Array

    def led(self, count: int, rank: int) -> Affine:
        """Return the parameters for a tensor of rank `rank` with `count` leading axes of length 1 inserted."""
        ones = (1,) * count
        # Numbers for the only axis of a vector have a second one, of length 1.
        scale, zero_point = (
            x if x.size == 1 else x.reshape((ones + x.shape)[:rank]) for x in (self.scale, self.zero_point)
        )
        return Affine(scale, zero_point)

    def decode(self, codes: Array, indices: slice, shape: Sequence[int]) -> Array:
        """Decode `codes`, which are the elements `indices` of a flattened tensor of `shape`."""
        scale, shift = (_broadcast_parameter(each, indices, shape) for each in (self.scale, self.zero_point))
        return (codes.astype(np.float64) - shift) * scale


@dataclass(frozen=True, slots=True)
class Powers:
    """Logarithmic quantization: real = 2 ^ (code + exponent)."""

    exponent: Array

    def decode(self, codes: Array, indices: slice, shape: Sequence[int]) -> Array:
        """Decode `codes`, which are the elements `indices` of a flattened tensor of `shape`."""
        return np.exp2(codes.astype(np.float64) + _broadcast_parameter(self.exponent, indices, shape))


def _broadcast_parameter(numbers: Array, indices: slice, shape: Sequence[int]) -> Array:
    if numbers.size == 1:
        return numbers.reshape(())
    aligned = numbers.reshape(numbers.shape + (1,) * (len(shape) - numbers.ndim))
    return np.asarray(np.broadcast_to(aligned, shape).flat[indices])


def decoding_of(quantization: Quantization) -> Affine | Powers | None:
    """Return how codes are decoded (affine or powers of two); `None` for an operation that the document declares."""
    given = quantization.arguments
    match quantization.operation:
        case "zero_point_linear_quantize":
            return Affine(_array_of(given, "scale"), _array_of(given, "zero_point"))
        case "min_max_linear_quantize" | "linear_quantize":
            low, high = _array_of(given, "min"), _array_of(given, "max")
            bits, signed, symmetric = (int(_scalar_of(given.get(name, 0))) for name in ("bits", "signed", "symmetric"))
            scale = (high - low) / (2**bits - 1 - (signed and symmetric))
            return Affine(scale, -low / scale - (2 ** (bits - 1) - symmetric if signed else 0))
        case "logarithmic_quantize":
            steps = 2 ** int(_scalar_of(given["bits"])) - 1
            return Powers(np.ceil(np.log2(_array_of(given, "max"))) - steps)
        case _:
            return None


def _array_of(given: Mapping[str, Attribute], name: str) -> Array:
    return np.asarray(given[name], np.float64)


def _scalar_of(value: Attribute) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


class Decoded(Storage):
    """Elements decoded from codes on access."""

    __slots__ = ("codes", "decoding")

    def __init__(self, codes: Storage, decoding: Affine | Powers) -> None:
        super().__init__(DType.FLOAT32, codes.shape)
        self.codes = codes
        self.decoding = decoding

    def reshaped(self, shape: Sequence[int]) -> Storage:
        count = len(shape) - len(self.shape)
        if count > 0 and (*shape,) == (1,) * count + self.shape and isinstance(self.decoding, Affine):
            return Decoded(self.codes.reshaped(shape), self.decoding.led(count, len(shape)))
        return super().reshaped(shape)

    def numpy(self) -> Array:
        return joined(self._blocks(CHUNK), np.float32, self.shape)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        for block in self._blocks(limit):
            yield block.view(np.uint8).data

    def _blocks(self, limit: int) -> Iterator[Array]:
        at = 0
        for codes in elements_of(self.codes, max(limit // 8, 8)):
            # The last byte of packed codes may hold some beyond the count.
            stop = min(at + len(codes), self.count)
            with np.errstate(over="ignore"):
                yield self.decoding.decode(codes[: stop - at], slice(at, stop), self.shape).astype(np.float32)
            at = stop
