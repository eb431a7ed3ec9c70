"""ONNX's types of values as facts, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

from onnx import TensorProto, TensorShapeProto, TypeProto

from graphport.core.dims import dim_name, parse_dim, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, UNKNOWN, OptionalFact, SequenceFact, TensorFact

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact

DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: DType.FLOAT32,
    TensorProto.UINT8: DType.UINT8,
    TensorProto.INT8: DType.INT8,
    TensorProto.UINT16: DType.UINT16,
    TensorProto.INT16: DType.INT16,
    TensorProto.INT32: DType.INT32,
    TensorProto.INT64: DType.INT64,
    TensorProto.STRING: DType.STRING,
    TensorProto.BOOL: DType.BOOL,
    TensorProto.FLOAT16: DType.FLOAT16,
    TensorProto.DOUBLE: DType.FLOAT64,
    TensorProto.UINT32: DType.UINT32,
    TensorProto.UINT64: DType.UINT64,
    TensorProto.COMPLEX64: DType.COMPLEX64,
    TensorProto.COMPLEX128: DType.COMPLEX128,
    TensorProto.BFLOAT16: DType.BFLOAT16,
    TensorProto.FLOAT8E4M3FN: DType.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ: DType.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2: DType.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ: DType.FLOAT8E5M2FNUZ,
    TensorProto.UINT4: DType.UINT4,
    TensorProto.INT4: DType.INT4,
    TensorProto.FLOAT4E2M1: DType.FLOAT4E2M1,
    TensorProto.FLOAT8E8M0: DType.FLOAT8E8M0,
    TensorProto.UINT2: DType.UINT2,
    TensorProto.INT2: DType.INT2,
}
"""Our dtypes by ONNX's codes."""

CODES: dict[DType, int] = {dtype: code for code, dtype in DTYPES.items()}

MOST_RANK = 64
"""Axes that NumPy can hold."""

_OURS = ("\0", "~")  # first characters of names that the project makes


class UnknownTypeError(Exception):
    """An element type that does not exist or is not supported; the message names it."""


def dtype_of(code: int) -> DType:
    """The element type with ONNX's number `code`.

    Raises:
        UnknownTypeError: there is none, or it is one that NumPy has no type for.
    """
    found = DTYPES.get(code)
    if found is None:
        name = TensorProto.DataType.Name(code) if code in TensorProto.DataType.values() else "unknown"
        raise UnknownTypeError(f"{code} ({name})")
    return found


def read_type(proto: TypeProto) -> tuple[Fact, bool]:
    """Return the fact of a type, and whether it is complete.

    Maps and opaque types are `UNKNOWN`. A dim without a usable name is `OPEN`.

    Raises:
        UnknownTypeError: an undefined element type.
    """
    around: list[type[SequenceFact | OptionalFact]] = []
    is_all = True
    while True:
        is_all = is_all and not proto.denotation
        match proto.WhichOneof("value"):
            case "tensor_type":
                fact, is_plain = _tensor(proto.tensor_type)
                break
            case "sequence_type":
                around.append(SequenceFact)
                proto = proto.sequence_type.elem_type
            case "optional_type":
                around.append(OptionalFact)
                proto = proto.optional_type.elem_type
            case "sparse_tensor_type":
                fact, is_plain = _tensor(proto.sparse_tensor_type)[0], False
                break
            case _:
                fact, is_plain = UNKNOWN, False
                break
    result: Fact = fact
    for wrap in reversed(around):
        result = wrap(result)
    return result, is_plain and is_all


def write_type(fact: Fact, name: str = "") -> TypeProto:
    """Return the type of `fact`; dims with internal names (`NAME.0`, `NAME.1`, …) and open dims have none."""
    outermost = proto = TypeProto()
    while not isinstance(fact, TensorFact):
        around = proto.sequence_type if isinstance(fact, SequenceFact) else proto.optional_type
        proto = around.elem_type
        proto.SetInParent()
        fact = fact.element
    tensor = proto.tensor_type
    tensor.SetInParent()
    if fact.dtype is not None:
        tensor.elem_type = CODES[fact.dtype]
    if fact.shape is None:
        return outermost
    tensor.shape.SetInParent()
    for axis, dim in enumerate(fact.shape):
        entry = tensor.shape.dim.add()
        if isinstance(dim, int):
            entry.dim_value = dim
        elif str(dim).strip("`") != f"{name}.{axis}" and not any(known.startswith(_OURS) for known in symbols(dim)):
            entry.dim_param = dim_name(dim)
    return outermost


def is_fact(value: object) -> TypeGuard[Fact]:
    """Whether an attribute value is a fact."""
    return isinstance(value, TensorFact | SequenceFact | OptionalFact)


def has_type(fact: Fact) -> bool:
    """Whether the element type is known."""
    while not isinstance(fact, TensorFact):
        fact = fact.element
    return fact.dtype is not None


def is_same_type(declared: Fact, fact: Fact) -> bool:
    """Whether two facts have the same type, ignoring elements."""
    if isinstance(fact, TensorFact) and fact.elements is not None:
        fact = fact.with_elements(None)
    return declared == fact


def _tensor(proto: TypeProto.Tensor | TypeProto.SparseTensor) -> tuple[TensorFact, bool]:
    code = proto.elem_type
    dtype = dtype_of(code) if code else None
    is_all = dtype is not None
    if not proto.HasField("shape"):
        return TensorFact(dtype, None), is_all
    dims: list[Dim] = []
    for entry in proto.shape.dim:
        dim, is_plain = _dim(entry)
        dims.append(dim)
        is_all = is_all and is_plain
    return TensorFact(dtype, tuple(dims)), is_all


def _dim(proto: TensorShapeProto.Dimension) -> tuple[Dim, bool]:
    is_plain = not proto.denotation
    match proto.WhichOneof("value"):
        case "dim_value":
            number = proto.dim_value
            return (number, is_plain) if number >= 0 else (OPEN, False)
        case "dim_param":
            dim = _named_dim(proto.dim_param)
            return dim, is_plain and dim is not OPEN and not isinstance(dim, int)
        case _:
            return OPEN, False


@lru_cache(maxsize=4096)
def _named_dim(text: str | bytes) -> Dim:
    """Return the dim named `text`. Exporters write `?` for different dims, so a text without letters is `OPEN`."""
    if isinstance(text, bytes) or not any(character.isalnum() for character in text) or text[0] in _OURS:
        return OPEN
    if text.startswith("-") and text[1:].isdigit():
        return OPEN
    return parse_dim(text)
