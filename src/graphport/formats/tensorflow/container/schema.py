"""The protobuf messages of TensorFlow that the reader needs: tags, names and types of fields."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from graphport.core.dtypes import DType


class Field(NamedTuple):
    """A field of a message; `type` is that of a scalar, or the name of a message."""

    name: str
    type: str
    is_repeated: bool = False


# One line for each message: `number name type`, with `*` after the type of a repeated field. `Map:M` is an entry of a
# map from strings to messages M.
_MESSAGES = {
    "SavedModel": "1 version int, 2 meta_graphs MetaGraphDef*",
    "MetaGraphDef": "1 info MetaInfo, 2 graph GraphDef, 3 saver SaverDef, 4 collections Map:CollectionDef*,"
    " 5 signatures Map:SignatureDef*, 6 assets AssetFileDef*, 7 objects SavedObjectGraph",
    "MetaInfo": "4 tags string*, 5 version string",
    "SaverDef": "1 filename string, 3 restore string",
    "CollectionDef": "1 nodes NodeList",
    "NodeList": "1 value string*",
    "AssetFileDef": "1 tensor TensorInfo, 2 filename string",
    "SignatureDef": "1 inputs Map:TensorInfo*, 2 outputs Map:TensorInfo*, 3 method string",
    "TensorInfo": "1 name string, 2 dtype int, 3 shape TensorShape, 4 sparse Opaque, 5 composite Opaque",
    "SavedObjectGraph": "1 nodes SavedObject*",
    "SavedObject": "5 asset Opaque, 7 variable SavedVariable, 11 table Opaque",
    "SavedVariable": "1 dtype int, 2 shape TensorShape, 6 name string",
    "Opaque": "",
    "GraphDef": "1 nodes NodeDef*, 2 library FunctionLibrary, 4 versions Versions",
    "Versions": "1 producer int",
    "FunctionLibrary": "1 functions FunctionDef*",
    "FunctionDef": "1 signature OpDef, 3 nodes NodeDef*, 4 returns Map:string*, 5 attributes Map:AttrValue*,"
    " 6 control_returns Map:string*",
    "OpDef": "1 name string, 2 inputs ArgDef*, 3 outputs ArgDef*",
    "ArgDef": "1 name string, 3 type int, 4 type_attr string, 5 number_attr string, 6 type_list_attr string",
    "NodeDef": "1 name string, 2 op string, 3 inputs string*, 5 attributes Map:AttrValue*",
    "AttrValue": "1 list AttrList, 2 s bytes, 3 i int, 4 f float, 5 b bool, 6 type int, 7 shape TensorShape,"
    " 8 tensor TensorProto, 9 placeholder string, 10 func NameAttrList",
    "AttrList": "2 s bytes*, 3 i int*, 4 f float*, 5 b bool*, 6 type int*, 7 shape TensorShape*,"
    " 8 tensor TensorProto*, 9 func NameAttrList*",
    "NameAttrList": "1 name string, 2 attributes Map:AttrValue*",
    "TensorShape": "2 dims Dim*, 3 unknown_rank bool",
    "Dim": "1 size int",
    "TensorProto": "1 dtype int, 2 shape TensorShape, 4 content bytes, 5 float_val float*, 6 double_val double*,"
    " 7 int_val int*, 8 string_val bytes*, 9 scomplex_val float*, 10 int64_val int*, 11 bool_val int*,"
    " 12 dcomplex_val double*, 13 half_val int*, 16 uint32_val int*, 17 uint64_val int*, 18 float8_val bytes",
    "BundleHeader": "1 shards int, 2 endianness int",
    "BundleEntry": "1 dtype int, 2 shape TensorShape, 3 shard int, 4 offset int, 5 size int, 6 crc fixed32,"
    " 7 slices Opaque*",
}

DTYPES: dict[int, DType] = {
    1: DType.FLOAT32,
    2: DType.FLOAT64,
    3: DType.INT32,
    4: DType.UINT8,
    5: DType.INT16,
    6: DType.INT8,
    7: DType.STRING,
    8: DType.COMPLEX64,
    9: DType.INT64,
    10: DType.BOOL,
    11: DType.INT8,
    12: DType.UINT8,
    13: DType.INT32,
    14: DType.BFLOAT16,
    15: DType.INT16,
    16: DType.UINT16,
    17: DType.UINT16,
    18: DType.COMPLEX128,
    19: DType.FLOAT16,
    22: DType.UINT32,
    23: DType.UINT64,
    24: DType.FLOAT8E5M2,
    25: DType.FLOAT8E4M3FN,
    29: DType.INT4,
    30: DType.UINT4,
}
"""Element types by the number of TensorFlow's `DataType`."""
RESOURCE, VARIANT = 20, 21
REFERENCE = 100
"""The number of the type of a reference to a variable is larger by this than that of its elements."""


@cache
def fields(kind: str) -> dict[int, Field]:
    """The fields of a message by number."""
    if kind.startswith("Map:"):
        return {1: Field("key", "string"), 2: Field("value", kind.removeprefix("Map:"))}
    found: dict[int, Field] = {}
    for row in filter(None, _MESSAGES[kind].split(",")):
        number, name, typed = row.split()
        found[int(number)] = Field(name, typed.removesuffix("*"), typed.endswith("*"))
    return found


def dtype_of(number: int) -> DType | None:
    """The element type of a number of `DataType`, which may be that of a reference."""
    return DTYPES.get(number - REFERENCE if number > REFERENCE else number)
