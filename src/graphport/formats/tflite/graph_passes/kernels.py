"""TFLite operators with integer kernels, and the constraints of these kernels on scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTES = frozenset((DType.INT8,))
_BOTH = frozenset((DType.INT8, DType.INT16))


@dataclass(frozen=True, slots=True)
class Kernel:
    """Constraints of an integer kernel.

    Attributes:
        types: element types of operands and results.
        numbers: indices of the quantized operands; empty for all.
        weights: indices of filters and bias, and the axis of per-channel scales.
        is_same: the results have the scale and the zero point of the operands.
        moves: the kernel only moves data, so that operands may be moved before they are dequantized.
        clamps: the kernel supports a fused activation.
        fixed: required scale and zero point of results, by type.
        shift: left shift of operands before an addition, in bits; 0 if there is none.
    """

    types: frozenset[DType] = _BOTH
    numbers: tuple[int, ...] = (0,)
    weights: tuple[int, int, int] | None = None
    is_same: bool = False
    moves: bool = False
    clamps: bool = False
    fixed: Mapping[DType, tuple[float, int]] | None = None
    shift: int = 0


def _at(byte: tuple[float, int], short: tuple[float, int] | None = None) -> Mapping[DType, tuple[float, int]]:
    return MappingProxyType({DType.INT8: byte} if short is None else {DType.INT8: byte, DType.INT16: short})


_MOVE = Kernel(is_same=True, moves=True)
_MOVE_BYTES = Kernel(_BYTES, is_same=True, moves=True)
_SAME = Kernel(is_same=True)
_ALL_SAME = Kernel(numbers=(), is_same=True)
_ANY = Kernel()
_ANY_BYTES = Kernel(_BYTES)
_POSITIVE = _at((1 / 256, -128), (1 / 32768, 0))
_ROWS: tuple[tuple[str, Kernel], ...] = (
    ("CONV_2D", Kernel(weights=(1, 2, 0), clamps=True)),
    ("DEPTHWISE_CONV_2D", Kernel(weights=(1, 2, 3), clamps=True)),
    ("FULLY_CONNECTED", Kernel(weights=(1, 2, 0), clamps=True)),
    ("TRANSPOSE_CONV", Kernel(numbers=(2,), weights=(1, 3, 0), clamps=True)),
    ("ADD SUB", Kernel(numbers=(), clamps=True, shift=20)),
    ("MUL", Kernel(numbers=(), clamps=True)),
    ("BATCH_MATMUL", Kernel(numbers=())),
    ("MAX_POOL_2D", Kernel(is_same=True, moves=True, clamps=True)),
    ("AVERAGE_POOL_2D", Kernel(is_same=True, clamps=True)),
    ("CONCATENATION PACK", _ALL_SAME),
    ("MAXIMUM MINIMUM", _ALL_SAME),
    ("RESHAPE TRANSPOSE PAD SLICE STRIDED_SLICE SQUEEZE EXPAND_DIMS GATHER TILE", _MOVE),
    ("PADV2 REDUCE_MAX REDUCE_MIN RESIZE_NEAREST_NEIGHBOR", _MOVE),
    ("SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND", _MOVE_BYTES),
    ("DEPTH_TO_SPACE SPACE_TO_DEPTH REVERSE_V2 MIRROR_PAD", _MOVE_BYTES),
    ("RESIZE_BILINEAR", _SAME),
    ("MEAN LEAKY_RELU RELU RELU6 ABS", _ANY),
    ("HARD_SWISH ELU GELU RELU_N1_TO_1 EXP RSQRT", _ANY_BYTES),
    ("PRELU SQUARED_DIFFERENCE", Kernel(_BYTES, numbers=())),
    ("L2_NORMALIZATION", Kernel(_BYTES, fixed=_at((1 / 128, 0)))),
    ("LOGISTIC SOFTMAX", Kernel(fixed=_POSITIVE)),
    ("TANH", Kernel(fixed=_at((1 / 128, 0), (1 / 32768, 0)))),
    ("LOG_SOFTMAX", Kernel(_BYTES, fixed=_at((16 / 256, 127)))),
)
KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {op_type: kernel for words, kernel in _ROWS for op_type in words.split()}
)
