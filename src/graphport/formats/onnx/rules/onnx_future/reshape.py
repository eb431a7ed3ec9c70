"""Changes of shape that came after the pinned opset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.onnx.rules.onnx_future import DIALECT, JUDGED
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import SpaceToDepth
from graphport.ops.lowering.operands import sizes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower(DIALECT, "SpaceToDepth", until=JUDGED)
def space_to_depth(b: Builder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """SpaceToDepth; with mode `CRD` the block axes follow the channels."""
    if mode not in ("DCR", "CRD"):
        message = f"mode is {mode!r}"
        raise ShapeError(message, "DCR or CRD")
    y = b(SpaceToDepth, x, blocksize=blocksize)
    if mode == "DCR":
        return y
    (channels,) = sizes(b.dims(x)[1:2], "the channels")
    order = np.arange(blocksize * blocksize * channels).reshape(-1, channels).T.reshape(-1)
    return b(Gather, y, b.constant(order.astype(np.int64)), axis=1)
