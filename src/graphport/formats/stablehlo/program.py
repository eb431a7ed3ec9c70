"""Programs of StableHLO as all containers give them: functions, operations, types and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from graphport.core.storage import Storage

ELEMENTS: dict[str, DType] = {
    "i1": DType.BOOL,
    "i2": DType.INT2,
    "i4": DType.INT4,
    "i8": DType.INT8,
    "i16": DType.INT16,
    "i32": DType.INT32,
    "i64": DType.INT64,
    "ui2": DType.UINT2,
    "ui4": DType.UINT4,
    "ui8": DType.UINT8,
    "ui16": DType.UINT16,
    "ui32": DType.UINT32,
    "ui64": DType.UINT64,
    "si4": DType.INT4,
    "si8": DType.INT8,
    "si16": DType.INT16,
    "si32": DType.INT32,
    "si64": DType.INT64,
    "index": DType.INT64,
    "bf16": DType.BFLOAT16,
    "f16": DType.FLOAT16,
    "f32": DType.FLOAT32,
    "f64": DType.FLOAT64,
    "f8E4M3FN": DType.FLOAT8E4M3FN,
    "f8E4M3FNUZ": DType.FLOAT8E4M3FNUZ,
    "f8E5M2": DType.FLOAT8E5M2,
    "f8E5M2FNUZ": DType.FLOAT8E5M2FNUZ,
    "f8E8M0FNU": DType.FLOAT8E8M0,
    "f4E2M1FN": DType.FLOAT4E2M1,
    "complex<f32>": DType.COMPLEX64,
    "complex<f64>": DType.COMPLEX128,
}
"""Element types by their names in MLIR."""

MAX_EXTENT = 1 << 48
"""Size of one dim."""
MAX_OPERATIONS = 200_000
"""Operations of a program, all calls inlined."""
MAX_CALL_DEPTH = 40
"""Calls within each other."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """The parameters of a quantized element type: `scales` and `zero_points` have one entry, or one per channel."""

    storage: str
    expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None
    lowest: int | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor: the name of the element type, and dims with `None` for an open one."""

    element: str
    shape: tuple[int | None, ...]
    quantization: Quantization | None = None
    is_bounded: bool = False

    @property
    def dtype(self) -> DType:
        """The element type; of a quantized tensor the storage type.

        Raises:
            RefusedError: SH0005 tensors of this type cannot be represented.
        """
        name = self.element if self.quantization is None else self.quantization.storage
        found = ELEMENTS.get(name)
        if found is None:
            refuse("SH0005", f"unsupported element type {name}", help="supported: " + ", ".join(ELEMENTS))
        return found

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex."""
        return self.element.startswith("complex")

    @property
    def count(self) -> int:
        """Number of elements of a tensor without open dims."""
        return prod(dim or 0 for dim in self.shape)

    def __str__(self) -> str:
        dims = "".join("?x" if dim is None else f"{dim}x" for dim in self.shape)
        return f"tensor<{dims}{self.element if self.quantization is None else '!quant'}>"


@dataclass(frozen=True, slots=True)
class OtherType:
    """A type that is no tensor: `token`, `tuple`, `function` with its parts, `none`, or a scalar."""

    name: str
    parts: tuple[Type, ...] = ()
    results: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = TensorType | OtherType


class Symbol(str):
    """The name of a function, `@name`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Dense:
    """A constant tensor: its type and its storage; of a splat, the storage has one element."""

    type: TensorType
    storage: Storage
    is_splat: bool = False

    def array(self) -> Any:
        """The elements as an array of the full shape; for small attributes."""
        import numpy as np

        found = self.storage.numpy()
        if not self.is_splat:
            return found
        return np.broadcast_to(found.reshape(()), [dim or 0 for dim in self.type.shape])


Attribute: TypeAlias = Any
"""An integer, float, bool, string, `Symbol`, `Dense`, type, list or dictionary of these; `None` for others."""


def dictionary(attribute: Attribute) -> dict[str, Attribute]:
    """Return a dictionary attribute; an empty dictionary for any other attribute."""
    return cast("dict[str, Attribute]", attribute) if isinstance(attribute, dict) else {}


def elements_of(attribute: Attribute) -> list[Attribute]:
    """Return the elements of a list attribute; an empty list for any other attribute."""
    return cast("list[Attribute]", attribute) if isinstance(attribute, list) else []


@dataclass(slots=True)
class Block:
    """The arguments (key and type) and operations of a region with one block."""

    arguments: list[tuple[int, Type]] = field(default_factory=list[tuple[int, Type]])
    operations: list[Operation] = field(default_factory=list[Any])


@dataclass(slots=True)
class Operation:
    """One operation: values are integer keys, unique in a program."""

    name: str
    operands: list[int]
    results: list[int]
    result_types: list[Type]
    attributes: dict[str, Attribute]
    regions: list[Block] = field(default_factory=list[Block])
    offset: int | None = None

    def attribute(self, name: str) -> Attribute:
        """Return a required attribute.

        Raises:
            RefusedError: SH0007 the operation does not have it.
        """
        found = self.attributes.get(name)
        if found is None:
            refuse("SH0007", f"missing attribute {name} of {self.shown()}", offset=self.offset)
        return found

    def shown(self) -> str:
        """The name with its dialect."""
        return self.name if "." in self.name or self.name in ("call", "return") else f"stablehlo.{self.name}"


@dataclass(slots=True)
class Function:
    """A function: `body` is `None` for a declaration."""

    name: str
    is_public: bool
    body: Block | None
    result_types: list[Type]
    argument_names: list[str | None]
    argument_attributes: list[dict[str, Attribute]]
    result_attributes: list[dict[str, Attribute]]
    offset: int | None = None


@dataclass(slots=True)
class Program:
    """All functions of a file."""

    functions: dict[str, Function]
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Any])
    version: str = ""

    def entry_function(self) -> Function:
        """The function `main`, or the only public one.

        Raises:
            RefusedError: SH0004 there is none, or several.
        """
        if "main" in self.functions and self.functions["main"].body is not None:
            return self.functions["main"]
        public = [f for f in self.functions.values() if f.is_public and f.body is not None]
        if len(public) != 1:
            names = ", ".join(f"@{name}" for name in list(self.functions)[:8]) or "none"
            refuse(
                "SH0004",
                f"no entry function: @main is missing, and there are {len(public)} public functions",
                help=f"functions: {names}",
            )
        return public[0]
