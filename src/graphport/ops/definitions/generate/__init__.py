"""Operators that generate tensors from parameters."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_less, maximum, product
from graphport.core.dtypes import DType
from graphport.core.facts import MOST_ELEMENTS, OPEN, TensorFact, as_integer
from graphport.core.storage import Storage, storage_of
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_13, BOOL, FLOATS, INT64, INTEGERS, SCALAR, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_13)]
T1 = Annotated[Tensor, Types("T1", INT64)]
T2 = Annotated[Tensor, Types("T2", ALL_13 - {DType.STRING, DType.COMPLEX64, DType.COMPLEX128, DType.FLOAT8E8M0})]
_EYE = FLOATS | INTEGERS | BOOL
Eye1 = Annotated[Tensor, Types("T1", _EYE)]
Eye2 = Annotated[Tensor, Types("T2", _EYE)]
Numbers = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT16, DType.INT32, DType.INT64})
R = Annotated[Tensor, Types("T", Numbers)]


def constant_value(attributes: dict[str, Any]) -> Storage:
    """Return the storage of the value attribute of `Constant`.

    Raises:
        ShapeError: no value attribute, or more than one, is present.
    """
    given = {name: value for name, value in attributes.items() if value is not None}
    if len(given) != 1:
        message = f"{len(given)} values: {', '.join(given)}" if given else "no value"
        raise ShapeError(message, "expected exactly one of value, value_float, value_ints, …")
    ((name, value),) = given.items()
    match name:
        case "value" | "sparse_value":
            return value
        case "value_float" | "value_floats":
            return storage_of(value, DType.FLOAT32)
        case "value_int" | "value_ints":
            return storage_of(value, DType.INT64)
        case _:
            return storage_of(np.array(value, object), DType.STRING)


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
    """The tensor given by the only attribute.  Shapes: that of `value`, [] or [n].

    Raises:
        ShapeError: there is not exactly one attribute.

    Source: ONNX Constant-25.
    """
    dense = sparse_value if value is None else value
    given = {
        "value": None if dense is None else storage_of(dense),
        "value_float": value_float,
        "value_floats": value_floats,
        "value_int": value_int,
        "value_ints": value_ints,
        "value_string": value_string,
        "value_strings": value_strings,
    }
    return constant_value(given).numpy()


def _constant_of_shape(input: TensorFact, *, value: Storage | None = None) -> TensorFact:
    if value is not None and value.count != 1:
        message = f"value has {value.count} elements"
        raise ShapeError(message, "expected one element, which fills the tensor")
    dtype = DType.FLOAT32 if value is None else value.dtype
    if input.elements is None:
        length = input.dims[0]
        return TensorFact(dtype, None if isinstance(length, Symbolic) else (OPEN,) * length)
    if any(decide_less(dim, 0) for dim in input.elements):
        message = f"the shape {list(map(str, input.elements))} has a negative dim"
        raise ShapeError(message)
    fact = TensorFact(dtype, input.elements)
    count = product(input.elements)
    is_short = isinstance(count, int) and count <= MOST_ELEMENTS and len(input.elements) <= 1
    if value is None or not is_short or not (dtype.is_integer or dtype.kind == "b"):
        return fact
    return fact.with_elements([int(value.numpy().reshape(-1)[0])] * as_integer(count))


@op(
    shape=_constant_of_shape,
    since=9,
    outputs=("output",),
    exactness="exact",
    index_operands=("input",),
    ranks={"input": 1},
)
def ConstantOfShape(input: T1, *, value: Tensor | None = None) -> T2:
    """A tensor of shape `input` filled with `value`, 0.0 by default.  Shapes: input [r], value [1] → rank r.

    Raises:
        ShapeError: a dim is negative, or `value` is not one number.

    Source: ONNX ConstantOfShape-25.
    """
    filler = np.zeros(1, np.float32) if value is None else value
    return np.full([int(dim) for dim in input], filler.reshape(-1)[0], filler.dtype)


def _range_shape(start: TensorFact, limit: TensorFact, delta: TensorFact) -> TensorFact:
    facts = (start, limit, delta)
    reals = [fact.reals[0] for fact in facts if fact.reals]
    if len(reals) == len(facts):
        return TensorFact(start.dtype, (_steps(*reals),))
    given = [fact.elements[0] for fact in facts if fact.elements]
    if len(given) < len(facts) or isinstance(given[2], Symbolic):
        return TensorFact(start.dtype, (OPEN,))
    begin, end, step = given[0], given[1], given[2]
    if step == 0:
        raise ShapeError(_NEVER)
    length: Dim = maximum(ceil_div(end - begin, step) if step > 0 else ceil_div(begin - end, -step), 0)
    fact = TensorFact(start.dtype, (length,))
    if isinstance(length, int) and length <= MOST_ELEMENTS:
        return fact.with_elements([begin + i * step for i in range(length)])
    return fact


_NEVER = "a delta of 0 never arrives"


def _steps(first: float, last: float, step: float) -> int:
    if step == 0:
        raise ShapeError(_NEVER)
    steps = (last - first) / step
    if not math.isfinite(steps):
        message = f"a range from {first:g} to {last:g} with step {step:g} has no finite length"
        raise ShapeError(message)
    return max(math.ceil(steps), 0)


@op(
    shape=_range_shape,
    since=11,
    outputs=("output",),
    exactness="rounding",
    role="index",
    index_operands=("start", "limit", "delta"),
    ranks={"start": SCALAR, "limit": SCALAR, "delta": SCALAR},
)
def Range(start: R, limit: R, delta: R) -> R:
    """`start`, `start + delta`, … before `limit`.  Shapes: three [] → [max(ceil((limit - start) / delta), 0)].

    Raises:
        ShapeError: `delta` is 0, or a number is infinite.

    Source: ONNX Range-11.
    """
    first, last, step = (x.reshape(-1)[0] for x in (start, limit, delta))
    if start.dtype.kind == "f":
        length = _steps(float(first), float(last), float(step))
    elif step:
        length = max(-((int(first) - int(last)) // int(step)), 0)
    else:
        raise ShapeError(_NEVER)
    return (first + np.arange(length).astype(start.dtype) * step).astype(start.dtype)


def _eye_shape(input: TensorFact, *, dtype: DType | None = None, k: int = 0) -> TensorFact:
    if input.rank != 2:
        message = f"input has rank {input.rank}, 2 is needed"
        raise ShapeError(message)
    return TensorFact(dtype or input.dtype, input.shape)


@op(
    shape=_eye_shape,
    since=9,
    outputs=("output",),
    exactness="exact",
    ranks={"input": 2},
)
def EyeLike(input: Eye1, *, dtype: DType | None = None, k: int = 0) -> Eye2:
    """Ones on diagonal `k`, zeros elsewhere, in the shape of `input` and the type `dtype` (else its own).

    Shapes: input [n, m] → [n, m].

    Raises:
        ShapeError: the rank is not 2.

    Source: ONNX EyeLike-22.
    """
    return np.eye(*input.shape, k=k).astype(input.dtype if dtype is None else dtype.numpy)
