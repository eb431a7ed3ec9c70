"""Operands of LiteRT's integer reference kernels, and saturation of their results.

The canonical form of a quantized operator computes in floats, within a step of the kernels, and the differences add up.
The reference interpreter can run a file's own operators with these kernels: integers, with LiteRT's rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import DIALECT, RELU, RELU6, RELU_N1_TO_1, FileNode, Quantization
from graphport.formats.tflite.rules.fixed_point import Numbers, briefly, once, twice
from graphport.ops.declare import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Node

BYTES = frozenset((DType.INT8, DType.UINT8))
SIGNED = frozenset((DType.INT8, DType.INT16))
ALL = BYTES | SIGNED
Rule: TypeAlias = "Callable[[KernelOperands], Numbers]"
_ENDS = {RELU: (0.0, np.inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}


@dataclass(slots=True)
class KernelOperands(FileNode["Numbers"]):
    """Stored operands, options and quantization parameters."""

    result: Quantization

    def stored(self, index: int) -> Numbers:
        """Return operand `index` as stored, as int64."""
        return np.asarray(self.operands[index]).astype(np.int64)

    def centred(self, index: int) -> Numbers:
        """Return operand `index` minus its zero point."""
        return self.stored(index) - self.quantization(index)[3][0]

    def quantization(self, index: int) -> Quantization:
        """Return the quantization parameters of operand `index`."""
        return cast("Quantization", self.quantized[index])

    def scale(self, index: int) -> np.float32:
        """Return the scale of operand `index`."""
        return np.float32(self.quantization(index)[2][0])

    @property
    def step(self) -> np.float32:
        """Scale of the result."""
        return np.float32(self.result[2][0])

    @property
    def zero(self) -> int:
        """Zero point of the result."""
        return self.result[3][0]

    @property
    def is_short(self) -> bool:
        """Whether the result is int16."""
        return self.result[0] is DType.INT16

    def factor(self, x: int, w: int) -> Numbers:
        """Return the factor from products of two operands to steps of the result, for each scale of the second."""
        scales = np.asarray(self.quantization(w)[2], np.float32).astype(np.float64)
        return float(self.scale(x)) * scales / float(self.step)

    def rescale_sums(self, sums: Numbers, reals: Numbers, bias: int, *, is_long: bool = False) -> Numbers:
        """Rescale sums of products to steps of the result with the rounding of the operand's kernels.

        Args:
            sums: including the bias.
            reals: the factors.
            bias: operand index of the bias: with an int32 bias, sums have 32 bits.
            is_long: whether the kernel rounds once, after a 64-bit product.
        """
        is_wide = self.is_short and not (self.has(bias) and self.quantization(bias)[0] is DType.INT32)
        return (once if is_long else briefly if is_wide else twice)(sums, reals)

    def clamped(self, steps: Numbers, activation: int | None = None) -> Numbers:
        """Add the zero point and saturate; `activation` defaults to the fused activation."""
        activation_name = self.option("fused_activation_function") if activation is None else activation
        limits = np.iinfo(self.result[0].numpy)
        low, high = limits.min, limits.max
        for end, bound in zip(_ENDS.get(activation_name, ()), (max, min), strict=False):
            if np.isfinite(end):
                place = self.zero + int(np.floor(np.float32(end) / self.step + np.float32(0.5)))
                low, high = (bound(low, place), high) if bound is max else (low, bound(high, place))
        return np.clip(steps + self.zero, low, high).astype(self.result[0].numpy)


def integer_kernel(
    op_type: str, types: frozenset[DType] = ALL, numbers: Sequence[int] = (0,)
) -> Callable[[Rule], Rule]:
    """Register an integer kernel.

    Args:
        op_type: the op type.
        types: element types of the result and of the operands `numbers`, which are quantized per-tensor.
        numbers: indices of these operands.
    """

    def register(rule: Rule) -> Rule:
        @exact(DIALECT, op_type, when=lambda node: _matches_kernel(node, types, numbers))
        @wraps(rule)
        def computed(
            *operands: Numbers | None,
            quantized: Sequence[Quantization | None] = (),
            quantized_results: Sequence[Quantization] = (),
            types: Sequence[DType] = (),
            states: Sequence[int] = (),
            **options: Any,
        ) -> Numbers:
            del types, states
            return rule(KernelOperands(operands, options, quantized, quantized_results[0]))

        del computed
        return rule

    return register


def _matches_kernel(node: Node, types: frozenset[DType], numbers: Sequence[int]) -> bool:
    quantized = cast("Sequence[Quantization | None]", node.attributes.get("quantized") or ())
    results = cast("Sequence[Quantization | None]", node.attributes.get("quantized_results") or ())
    if len(results) != 1 or len(node.outputs) != 1:
        return False
    wanted = [results[0], *(quantized[index] if index < len(quantized) else None for index in numbers)]
    return all(each is not None and each[1] < 0 and each[0] in types for each in wanted)
