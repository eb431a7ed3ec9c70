"""The sets of dtypes that ONNX's operators accept, as annotations of operator definitions.

A type variable is an alias in a family's module: `T = Annotated[Tensor, Types("T", FLOATS)]`. Operands and results of
one type variable have one dtype; its name and its set are taken from ONNX's schema.
"""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import Fact

Tensor: TypeAlias = np.ndarray[Any, Any]
"""A tensor in an operator definition: an array of NumPy or `ml_dtypes` type; strings are object arrays of `str`."""

Sequence: TypeAlias = list[Tensor]
"""A sequence in an operator definition."""


class Body(Protocol):
    """A subgraph in an operator definition or, over facts, in a shape rule; captured values are bound."""

    @property
    def facts(self) -> list[Fact]:
        """The facts of the outputs."""
        ...

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the body and return its outputs."""
        ...


@dataclass(frozen=True, slots=True)
class Types:
    """A type variable: its name in ONNX's schema, the dtypes that it admits, and the container.

    With form `any`, each operand may have its own type: loop-carried values have different types.
    """

    name: str
    dtypes: frozenset[DType]
    form: Literal["tensor", "sequence", "any"] = "tensor"


@dataclass(frozen=True, slots=True)
class Rank:
    """The permitted ranks of an operand: `least` to `most` (`None`: no limit), or one element (`is_scalar`).

    ONNX Runtime and exporters also accept a tensor of shape [1] as a scalar.
    """

    least: int = 0
    most: int | None = None
    is_scalar: bool = False

    @classmethod
    def of(cls, stated: int | tuple[int, int | None] | Rank) -> Rank:
        """Return the ranks for `@op(ranks=…)`: one integer, or the smallest and the largest."""
        if isinstance(stated, Rank):
            return stated
        return cls(stated, stated) if isinstance(stated, int) else cls(*stated)

    def fault(self, shape: Sequence_[Any] | None) -> str:
        """Return the error of an operand of `shape` (`None`: unknown); empty if it is valid."""
        if shape is None:
            return ""
        if self.is_scalar and len(shape) <= 1:
            has_more = shape and isinstance(shape[0], int) and shape[0] != 1
            return f"has {shape[0]} elements, expected 1" if has_more else ""
        if self.least <= len(shape) and (self.most is None or len(shape) <= self.most):
            return ""
        return f"has rank {len(shape)}, expected {self}"

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


SCALAR = Rank(0, 0, is_scalar=True)
"""A tensor with one element."""

HALF = frozenset({DType.FLOAT16, DType.BFLOAT16})
IEEE = frozenset({DType.FLOAT16, DType.FLOAT32, DType.FLOAT64})
FLOATS = IEEE | {DType.BFLOAT16}
FLOAT8 = frozenset({DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ})
SIGNED = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64})
UNSIGNED = frozenset({DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64})
INTEGERS = SIGNED | UNSIGNED
INDICES = frozenset({DType.INT32, DType.INT64})
NUMBERS_4 = FLOATS | INTEGERS
"""All number types except 4-bit integers and float8."""
BOOL = frozenset({DType.BOOL})
INT64 = frozenset({DType.INT64})
INT32 = frozenset({DType.INT32})
BYTES = frozenset({DType.INT8, DType.UINT8})
FLOAT32 = frozenset({DType.FLOAT32})
COMPLEX = frozenset({DType.COMPLEX64, DType.COMPLEX128})
STRING = frozenset({DType.STRING})
CLASSIC = IEEE | INTEGERS | BOOL | COMPLEX | STRING
"""ONNX's tensor types before bfloat16 was added."""
ALL_4 = CLASSIC | HALF
NIBBLES = frozenset({DType.INT4, DType.UINT4})
ALL_10 = ALL_4 | FLOAT8 | NIBBLES
ALL_11 = ALL_10 | {DType.FLOAT4E2M1}
ALL_12 = ALL_11 | {DType.FLOAT8E8M0}
ALL_13 = ALL_12 | {DType.INT2, DType.UINT2}
"""All tensor types of ONNX IR version 13; `ALL_12`, `ALL_11`, … are those of earlier versions."""
