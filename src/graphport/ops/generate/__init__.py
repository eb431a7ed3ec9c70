"""Tensors made of parameters rather than of tensors."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, maximum
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_13, BOOL, FLOATS, INT64, INTEGERS, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_13)]
T1 = Annotated[Tensor, Types("T1", INT64)]
T2 = Annotated[Tensor, Types("T2", ALL_13 - {DType.STRING, DType.COMPLEX64, DType.COMPLEX128, DType.FLOAT8E8M0})]
_EYE = FLOATS | INTEGERS | BOOL
Eye1 = Annotated[Tensor, Types("T1", _EYE)]
Eye2 = Annotated[Tensor, Types("T2", _EYE)]
Numbers = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT16, DType.INT32, DType.INT64})
R = Annotated[Tensor, Types("T", Numbers)]


def constant_value(attributes: dict[str, Any]) -> Storage:
    """The storage that one of the attributes of `Constant` gives.

    Raises:
        ShapeError: none or several are there, or the one that is there is sparse.
    """
    given = {name: value for name, value in attributes.items() if value is not None}
    if len(given) != 1:
        message = f"{len(given)} values: {', '.join(given)}" if given else "no value"
        raise ShapeError(message, "exactly one of value, value_float, value_ints, … must be there")
    ((name, value),) = given.items()
    match name:
        case "value":
            return value
        case "value_float" | "value_floats":
            return storage_of(value, DType.FLOAT32)
        case "value_int" | "value_ints":
            return storage_of(value, DType.INT64)
        case "value_string" | "value_strings":
            return storage_of(np.array(value, object), DType.STRING)
        case _:
            message = f"the value is given as {name}"
            raise ShapeError(message)


def _constant_shape(**attributes: Any) -> TensorFact:
    return TensorFact.of(constant_value(attributes))


@op(shape=_constant_shape, since=1, outputs=("output",), exactness="exact")
def Constant(
    *,
    sparse_value: Tensor | None = None,
    value: Tensor | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
    value_string: str | None = None,
    value_strings: tuple[str, ...] | None = None,
) -> T:
    """The tensor that the one attribute says.  Shapes: that of `value`, [] or [n].  Source: ONNX Constant-25."""
    if value is not None:
        return value
    given = {
        "sparse_value": sparse_value,
        "value_float": value_float,
        "value_floats": value_floats,
        "value_int": value_int,
        "value_ints": value_ints,
        "value_string": value_string,
        "value_strings": value_strings,
    }
    return constant_value(given).numpy()


def _constant_of_shape(input: TensorFact, *, value: Storage | None = None) -> TensorFact:
    dtype = DType.FLOAT32 if value is None else value.dtype
    if input.elements is None:
        length = input.dims[0]
        return TensorFact(dtype, None if isinstance(length, Symbolic) else (OPEN,) * length)
    if any(isinstance(dim, int) and dim < 0 for dim in input.known):
        message = f"the shape {list(input.known)} has a negative dim"
        raise ShapeError(message)
    fact = TensorFact(dtype, input.known)
    length = input.known[0] if len(input.known) == 1 else 1
    if (
        value is None
        or not isinstance(length, int)
        or len(input.known) > 1
        or not (dtype.is_integer or dtype.kind == "b")
    ):
        return fact
    return fact.with_elements([int(value.numpy().reshape(-1)[0])] * length) if length <= 256 else fact


@op(
    shape=_constant_of_shape,
    since=9,
    outputs=("output",),
    moves_data=False,
    exactness="exact",
    index_operands=("input",),
)
def ConstantOfShape(input: T1, *, value: Tensor | None = None) -> T2:
    """A tensor of shape `input` filled with `value`, 0.0 by default.  Shapes: input [r] → rank r.

    Raises:
        ShapeError: a dim is negative.

    Source: ONNX ConstantOfShape-25.
    """
    filler = np.zeros(1, np.float32) if value is None else value
    return np.full([int(dim) for dim in input], filler.reshape(-1)[0], filler.dtype)


def _range_shape(start: TensorFact, limit: TensorFact, delta: TensorFact) -> TensorFact:
    given = (start.elements, limit.elements, delta.elements)
    if None in given:
        return TensorFact(start.dtype, (OPEN,))
    begin, end, step = (elements[0] for elements in given if elements is not None)
    if isinstance(step, Symbolic):
        return TensorFact(start.dtype, (OPEN,))
    if step == 0:
        message = "a delta of 0 never arrives"
        raise ShapeError(message)
    length: Dim = maximum(ceil_div(end - begin, step) if step > 0 else ceil_div(begin - end, -step), 0)
    fact = TensorFact(start.dtype, (length,))
    if isinstance(length, int) and length <= 256:
        return fact.with_elements([begin + i * step for i in range(length)])
    return fact


@op(
    shape=_range_shape,
    since=11,
    outputs=("output",),
    exactness="rounding",
    role="index",
    index_operands=("start", "limit", "delta"),
)
def Range(start: R, limit: R, delta: R) -> R:
    """`start`, `start + delta`, … before `limit`.  Shapes: three [] → [max(ceil((limit - start) / delta), 0)].

    Raises:
        ShapeError: `delta` is 0.

    Source: ONNX Range-11.
    """
    first, last, step = (x.reshape(-1)[0] for x in (start, limit, delta))
    if step == 0:
        message = "a delta of 0 never arrives"
        raise ShapeError(message)
    if start.dtype.kind == "f":
        length = max(int(np.ceil((np.float64(last) - np.float64(first)) / np.float64(step))), 0)
    else:
        length = max(-((int(first) - int(last)) // int(step)), 0)
    return (first + np.arange(length).astype(start.dtype) * step).astype(start.dtype)


def _eye_shape(input: TensorFact, *, dtype: DType | None = None, k: int = 0) -> TensorFact:
    del k
    if input.rank != 2:
        message = f"input has rank {input.rank}, 2 is needed"
        raise ShapeError(message)
    return TensorFact(dtype or input.dtype, input.shape)


@op(shape=_eye_shape, since=9, outputs=("output",), exactness="exact")
def EyeLike(input: Eye1, *, dtype: DType | None = None, k: int = 0) -> Eye2:
    """Ones on diagonal `k`, zeros elsewhere, in the shape of `input` and the type `dtype` (else its own).

    Shapes: input [n, m] → [n, m].

    Raises:
        ShapeError: the rank is not 2.

    Source: ONNX EyeLike-22.
    """
    return np.eye(*input.shape, k=k).astype(input.dtype if dtype is None else dtype.numpy)
