"""Attributes and types of VHLO and of the builtin dialect in bytecode, and how StableHLO names the attributes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from graphport.formats.stablehlo.container.constants import raw_dense
from graphport.formats.stablehlo.container.text import sized
from graphport.formats.stablehlo.program import (
    MAX_EXTENT,
    Dense,
    OtherType,
    Quantization,
    Symbol,
    TensorType,
    Type,
    dictionary,
)
from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.stablehlo.container.cursor import Cursor

MAX_DEPTH = 64
_ENUMERATIONS: dict[int, list[str]] = {
    3: ["EQ", "NE", "GE", "GT", "LE", "LT"],
    4: ["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"],
    5: [
        "API_VERSION_UNSPECIFIED",
        "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
    ],
    7: ["FFT", "IFFT", "RFFT", "IRFFT"],
    11: ["DEFAULT", "HIGH", "HIGHEST"],
    12: ["DEFAULT", "THREE_FRY", "PHILOX"],
    13: ["", "UNIFORM", "NORMAL"],
    16: ["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"],
    19: ["DEFAULT", "HIGHEST", "TOLERANCE"],
}
_SCALARS = {
    0: "i1",
    2: "bf16",
    3: "f16",
    4: "f32",
    5: "f64",
    6: "f8E4M3FN",
    7: "f8E5M2",
    9: "index",
    10: "i4",
    11: "i8",
    12: "i16",
    13: "i32",
    14: "i64",
    15: "ui4",
    16: "ui8",
    17: "ui16",
    18: "ui32",
    19: "ui64",
    22: "token",
    26: "witness",
    27: "f8E4M3FNUZ",
    28: "f8E5M2FNUZ",
    29: "f8E4M3B11FNUZ",
    31: "i2",
    32: "ui2",
    33: "none",
    34: "tf32",
    35: "f8E4M3",
    36: "f8E3M4",
    37: "f4E2M1FN",
    38: "f6E2M3FN",
    39: "f6E3M2FN",
    40: "f8E8M0FNU",
}
_FLOAT_FORMATS = {"f64": ("<d", 8), "f32": ("<f", 4), "f16": ("<e", 2)}
_WIDTHS = {"i1": 1, "i2": 2, "ui2": 2, "i4": 4, "ui4": 4, "i8": 8, "ui8": 8, "i16": 16, "ui16": 16}


class VhloReader:
    """Reads attributes and types by index, each once."""

    def __init__(self, string: Callable[[int], str]) -> None:
        self.attribute_places: list[tuple[str, bool, Cursor]] = []
        self.type_places: list[tuple[str, bool, Cursor]] = []
        self._string = string
        self._attributes: dict[int, Any] = {}
        self._types: dict[int, Type] = {}
        self._depth = 0

    def attribute(self, index: int) -> Any:
        """Attribute `index`.

        Raises:
            RefusedError: SH0002 there is none, or it is damaged; SH0008 it is nested too deep.
        """
        if index in self._attributes:
            return self._attributes[index]
        if index >= len(self.attribute_places):
            refuse("SH0002", f"attribute index {index} is out of range: {len(self.attribute_places)}")
        dialect, is_encoded, cursor = self.attribute_places[index]
        self._enter(cursor)
        found = self._read(dialect, is_encoded, cursor)
        self._depth -= 1
        self._attributes[index] = found
        return found

    def _enter(self, cursor: Cursor) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            refuse(
                "SH0008", f"attributes or types are nested more than {MAX_DEPTH} levels deep", offset=cursor.position
            )

    def _read(self, dialect: str, is_encoded: bool, cursor: Cursor) -> Any:  # noqa: FBT001  a flag of the file
        if not is_encoded:
            return bytes(cursor.data[cursor.position : cursor.end]).rstrip(b"\x00").decode("utf-8", "replace")
        if dialect == "vhlo":
            return self._vhlo_attribute(cursor)
        return self._builtin_attribute(cursor) if dialect == "builtin" else None

    def type(self, index: int) -> Type:
        """Type `index`; see `attribute`."""
        if index in self._types:
            return self._types[index]
        if index >= len(self.type_places):
            refuse("SH0002", f"type index {index} is out of range: {len(self.type_places)}")
        dialect, is_encoded, cursor = self.type_places[index]
        self._enter(cursor)
        found = self._vhlo_type(cursor) if dialect == "vhlo" and is_encoded else OtherType("builtin")
        self._depth -= 1
        self._types[index] = found
        return found

    # Attributes

    def _list(self, cursor: Cursor) -> list[Any]:
        return [self.attribute(cursor.varint()) for _ in range(cursor.count())]

    def _vhlo_attribute(self, cursor: Cursor) -> Any:
        code = cursor.varint()
        if code in _ENUMERATIONS:
            names, value = _ENUMERATIONS[code], cursor.varint()
            if value >= len(names):
                refuse("SH0002", f"unknown enum value {value} of attribute {code}", offset=cursor.position)
            return names[value]
        match code:
            case 1:
                return self._list(cursor)
            case 2:
                return bool(cursor.varint())
            case 6:
                pairs = [(cursor.varint(), cursor.varint()) for _ in range(cursor.count())]
                return {str(self.attribute(key)): self.attribute(value) for key, value in pairs}
            case 8:
                return self._float(cursor)
            case 9:
                return self._integer(cursor)
            case 14:
                return self._string(cursor.varint())
            case 15:
                return self._tensor_attribute(cursor)
            case 17:
                return self.type(cursor.varint())
            case 18:
                return {"bounds": [cursor.signed() for _ in range(cursor.count())]}
            case _:
                return None

    def _float(self, cursor: Cursor) -> float:
        type = self.type(cursor.varint())
        name = type.name if isinstance(type, OtherType) else ""
        width = 8 * _FLOAT_FORMATS[name][1] if name in _FLOAT_FORMATS else (16 if name == "bf16" else 8)
        bits = cursor.byte() if width <= 8 else cursor.signed() & ((1 << width) - 1)
        if name == "bf16":
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        if name not in _FLOAT_FORMATS:
            refuse("SH0005", f"unsupported type {name} of a float attribute", offset=cursor.position)
        kind, size = _FLOAT_FORMATS[name]
        return struct.unpack(kind, bits.to_bytes(size, "little"))[0]

    def _integer(self, cursor: Cursor) -> int:
        type = self.type(cursor.varint())
        name = type.name if isinstance(type, OtherType) else ""
        width = _WIDTHS.get(name, 32 if name.endswith("32") else 64)
        if width <= 8:
            number = cursor.byte()
            return number - (1 << width) if not name.startswith("u") and number >> (width - 1) and width > 1 else number
        return cursor.signed()

    def _tensor_attribute(self, cursor: Cursor) -> Dense:
        type = self.type(cursor.varint())
        size = cursor.varint()
        start = cursor.skip(size)
        if not isinstance(type, TensorType) or None in type.shape:
            refuse("SH0010", f"unsupported type {type} of a constant", offset=start)
        return raw_dense(cursor.file, start, size, type, is_hex=False)

    def _builtin_attribute(self, cursor: Cursor) -> Any:
        match cursor.varint():
            case 0:
                return self._list(cursor)
            case 1:
                pairs = [(cursor.varint(), cursor.varint()) for _ in range(cursor.count())]
                return {str(self.attribute(key)): self.attribute(value) for key, value in pairs}
            case 2 | 3:
                return self._string(cursor.varint())
            case 14:
                return {"location": self.attribute(cursor.varint())}
            case _:
                return None

    def location_name(self, index: int) -> str | None:
        """Return the name in a location, if there is one."""
        name = dictionary(self.attribute(index)).get("location")
        return name if isinstance(name, str) else None

    # Types

    def _vhlo_type(self, cursor: Cursor) -> Type:
        code = cursor.varint()
        if code in _SCALARS:
            return OtherType(_SCALARS[code])
        match code:
            case 1:
                part = self._element(cursor)
                return OtherType(f"complex<{part}>")
            case 8:
                given = tuple(self.type(cursor.varint()) for _ in range(cursor.count()))
                return OtherType("function", given, tuple(self.type(cursor.varint()) for _ in range(cursor.count())))
            case 20 | 21:
                return self._tensor_type(cursor, has_encoding=code == 21)
            case 41:
                return OtherType("buffer", (self._tensor_type(cursor, has_encoding=False),))
            case 42:
                return OtherType("future", tuple(self.type(cursor.varint()) for _ in range(cursor.count())))
            case 23:
                return sized(OtherType("tuple", tuple(self.type(cursor.varint()) for _ in range(cursor.count()))))
            case 24 | 30:
                return self._quantized(cursor, is_per_axis=code == 30)
            case _:
                return refuse("SH0005", f"unsupported VHLO type code {code}", offset=cursor.position)

    def _element(self, cursor: Cursor) -> str:
        found = self.type(cursor.varint())
        return found.name if isinstance(found, OtherType) else "?"

    def _tensor_type(self, cursor: Cursor, *, has_encoding: bool) -> TensorType:
        encoding = self.attribute(cursor.varint()) if has_encoding else None
        shape = [cursor.signed() for _ in range(cursor.count())]
        element = self.type(cursor.varint())
        dims = tuple(None if dim < 0 else dim for dim in shape)
        if any(dim is not None and dim > MAX_EXTENT for dim in dims):
            refuse("SH0008", f"shape {shape} exceeds the addressable memory", offset=cursor.position)
        is_bounded = isinstance(encoding, dict) and "bounds" in encoding
        if isinstance(element, _QuantizedElement):
            return TensorType(element.quantization.expressed, dims, element.quantization, is_bounded)
        if not isinstance(element, OtherType):
            refuse("SH0002", "nested tensor type", offset=cursor.position)
        return TensorType(element.name, dims, None, is_bounded)

    def _quantized(self, cursor: Cursor, *, is_per_axis: bool) -> Type:
        cursor.varint()  # flags: the storage type has its sign
        flags_storage, expressed = self._element(cursor), self._element(cursor)
        if is_per_axis:
            axis = cursor.varint()
            lowest, highest = cursor.signed(), cursor.signed()
            scales = tuple(_double(cursor) for _ in range(cursor.count()))
            points = tuple(cursor.signed() for _ in range(cursor.count()))
        else:
            axis = None
            scales, points = (_double(cursor),), (cursor.signed(),)
            lowest, highest = cursor.signed(), cursor.signed()
        found = Quantization(flags_storage, expressed, scales, points, axis, lowest, highest)
        return _QuantizedElement(found)


class _QuantizedElement(OtherType):
    """A quantized element type, which only occurs in tensor types."""

    __slots__ = ("quantization",)

    def __init__(self, quantization: Quantization) -> None:
        super().__init__("quantized")
        object.__setattr__(self, "quantization", quantization)

    quantization: Quantization


def _double(cursor: Cursor) -> float:
    return struct.unpack("<d", (cursor.signed() & ((1 << 64) - 1)).to_bytes(8, "little"))[0]


# Names of attributes

_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
    "index_vector_dim",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
    "index_vector_dim",
)
_DOT = (
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)
_CONVOLUTION = (
    "input_batch_dimension",
    "input_feature_dimension",
    "input_spatial_dimensions",
    "kernel_input_feature_dimension",
    "kernel_output_feature_dimension",
    "kernel_spatial_dimensions",
    "output_batch_dimension",
    "output_feature_dimension",
    "output_spatial_dimensions",
)
_GROUPS = {
    "gather": ("dimension_numbers", _GATHER),
    "dynamic_gather": ("dimension_numbers", _GATHER),
    "scatter": ("scatter_dimension_numbers", _SCATTER),
    "dot_general": ("dot_dimension_numbers", _DOT),
    "convolution": ("dimension_numbers", _CONVOLUTION),
    "dynamic_conv": ("dimension_numbers", _CONVOLUTION),
}


def stablehlo_attributes(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Convert the flat attributes of VHLO to StableHLO: `dimension_numbers` as a dictionary, lists as lists."""
    found = {key: _to_stablehlo_attribute(key, value) for key, value in attributes.items()}
    if name in _GROUPS:
        group, keys = _GROUPS[name]
        found[group] = {key: found.pop(key) for key in keys if key in found}
    if "call_target_name" in found:
        found["callee"] = found["call_target_name"]
    for key in ("callee", "decomposition"):
        if isinstance(found.get(key), str):
            found[key] = Symbol(found[key])
    if name == "constant":
        found["value"] = attributes.get("value")
    return found


def _to_stablehlo_attribute(key: str, value: Any) -> Any:
    """Integers and booleans of a constant as a list; of pairs, one list."""
    if not isinstance(value, Dense) or key == "value":
        return value
    array = value.array()
    if array.dtype.kind in "iub":
        return array.reshape(-1).tolist() if array.ndim else array.item()
    return value
