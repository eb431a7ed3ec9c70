"""Element types of PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.torch_functions import emits, named_dtype
from graphport.ops.dialects.torch_promotion import cast
from graphport.ops.dialects.torch_rows import PNNX


@emits(
    "Tensor.to",
    "aten::to",
    "aten::_to_copy",
    "Tensor.type",
    ignores=("copy", "non_blocking", "memory_format", "device", "layout", "pin_memory"),
)
def to(b: Builder, input: Value, dtype: Any = None) -> Value:
    if dtype is not None and not isinstance(dtype, str):
        message = f"the element type is {dtype}"
        raise UnsupportedError(message)
    wanted = named_dtype(dtype)
    return input if wanted is None else cast(b, input, wanted)


PNNX.lower("Tensor.type_as, aten::type_as(input, other) -> cast(input, dtype(other))")


def _typed(dtype: DType, b: Builder, input: Value) -> Value:
    return cast(b, input, dtype)


def _register_casts() -> None:
    words = {"float": DType.FLOAT32, "double": DType.FLOAT64, "half": DType.FLOAT16, "bfloat16": DType.BFLOAT16}
    words |= {"int": DType.INT32, "long": DType.INT64, "bool": DType.BOOL, "short": DType.INT16, "byte": DType.UINT8}
    for word, dtype in words.items():
        emits(f"Tensor.{word}")(partial(_typed, dtype))


_register_casts()
