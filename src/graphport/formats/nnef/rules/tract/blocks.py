"""Four-bit weights in blocks of 32 with a scale each, which tract reads compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.constant_folding import Computed

if TYPE_CHECKING:
    from graphport.core.storage import Storage

BLOCK = 32
_FOUR_BITS = frozenset([DType.INT4, DType.UINT4])
_LEAST, _MOST = -8, 7


class InBlocks(Computed):
    """Weights decoded from codes [rows, columns] and scales [rows, columns / 32]; tract's writer stores the codes."""

    __slots__ = ("_zero",)

    def __init__(self, codes: Storage, scale: Storage, zero: Storage | None) -> None:
        super().__init__(_decode, (codes, scale) if zero is None else (codes, scale, zero), DType.FLOAT32, codes.shape)
        self._zero = zero

    def codes(self) -> Any:
        """Return the codes, -8 to 7."""
        return _shifted(self.sources[0].numpy(), None if self._zero is None else self._zero.numpy())

    def scales(self) -> Any:
        """Return the scales, which are exact in float16."""
        return self.sources[1].numpy().astype(np.float32)


def in_blocks(codes: Storage, scale: Storage, zero: Storage | None, axis: int, size: int) -> InBlocks | None:
    """Return the blocked storage if tract's format represents the codes exactly, else `None`."""
    if codes.dtype not in _FOUR_BITS or scale.dtype is not DType.FLOAT32 or len(codes.shape) != len(scale.shape):
        return None
    if len(codes.shape) != 2 or axis % 2 != 1 or size != BLOCK or codes.shape[1] % BLOCK:
        return None
    if scale.shape != (codes.shape[0], codes.shape[1] // BLOCK) or (zero is not None and zero.shape != scale.shape):
        return None
    found = InBlocks(codes, scale, zero)
    scales, shifted = found.scales(), found.codes()
    with np.errstate(over="ignore"):
        halves = scales.astype(np.float16)
    is_half = bool(np.isfinite(halves).all() and (halves.astype(np.float32) == scales).all())
    is_short = shifted.size > 0 and int(shifted.min()) >= _LEAST and int(shifted.max()) <= _MOST
    return found if is_half and is_short else None


def _shifted(codes: Any, zero: Any) -> Any:
    wide = codes.astype(np.int16)
    return wide if zero is None else wide - np.repeat(zero.astype(np.int16), BLOCK, axis=1)


def _decode(codes: Any, scale: Any, zero: Any = None) -> Any:
    return _shifted(codes, zero).astype(np.float32) * np.repeat(scale.astype(np.float32), BLOCK, axis=1)
