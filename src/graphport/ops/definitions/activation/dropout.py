"""Elements set to 0 at random while a network is trained."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import BOOL, FLOAT8, FLOATS, SCALAR, Tensor, Types

T = Annotated[Tensor, Types("T", FLOATS | FLOAT8)]
T1 = Annotated[Tensor, Types("T1", FLOATS | FLOAT8)]
T2 = Annotated[Tensor, Types("T2", BOOL)]


def _dropout_shape(
    data: TensorFact,
    ratio: TensorFact | None = None,
    training_mode: TensorFact | None = None,
    *,
    seed: int | None = None,
) -> tuple[TensorFact, TensorFact]:
    for name, fact in (("ratio", ratio), ("training_mode", training_mode)):
        if fact is not None and fact.shape is not None and len(fact.shape) > 1:
            message = f"{name} has rank {len(fact.shape)}"
            raise ShapeError(message, "expected a scalar")
    rate = None if ratio is None or ratio.reals is None else ratio.reals[0]
    if rate is not None and not 0 <= rate < 1:
        message = f"ratio is {rate:g}"
        raise ShapeError(message, "expected a value in [0, 1)")
    return TensorFact(data.dtype, data.shape), TensorFact(DType.BOOL, data.shape)


@op(
    homogeneous=True,
    shape=_dropout_shape,
    since=12,
    outputs=("output", "mask"),
    exactness="exact",
    role="passive",
    index_operands=("ratio", "training_mode"),
    ranks={"ratio": SCALAR, "training_mode": SCALAR},
)
def Dropout(
    data: T, ratio: T1 | None = None, training_mode: T2 | None = None, *, seed: int | None = None
) -> tuple[T, T2]:
    """Identity; with `training_mode` and `ratio` > 0 (default 0.5), random elements of `data` are set to 0.

    The remaining elements are scaled by 1 / (1 - ratio). The mask is true for remaining elements; without training it
    is all true. Random numbers come from NumPy's Mersenne Twister with `seed`, or from system entropy without a seed;
    other runtimes use other generators.

    Shapes: data [*s], ratio [], training_mode [] → [*s] twice.

    Raises:
        ShapeError: the ratio is outside [0, 1).

    Source: ONNX Dropout-22.
    """
    share = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    if training_mode is None or not training_mode.reshape(-1)[0] or share == 0:
        return data, np.ones(data.shape, np.bool_)
    state = None if seed is None else seed % 2**32
    kept = np.random.RandomState(state).uniform(0, 1, data.shape) >= share
    wide = data.astype(np.float32) if data.dtype.itemsize < 4 else data
    return np.where(kept, wide * wide.dtype.type(1 / (1 - share)), 0).astype(data.dtype), kept
