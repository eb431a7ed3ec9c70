"""Tensors named in `graph.quant`: most operators use the decoded numbers, some the stored codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.quantized import Decoded
from graphport.formats.nnef.container.tract.node_builder import DIALECT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.formats.nnef.container.quantized import Quantization
    from graphport.formats.nnef.container.tract.node_builder import GraphBuilder
    from graphport.ir.graph import Value

_OF_CODES = {
    "tract_core_qconv": ("input", "filter"),
    "tract_core_qmatmul": ("A", "B"),
    "tract_core_einsum_q": ("inputs",),
}
"""Operators that compute with codes, and their parameters."""
_LINEAR = "zero_point_linear_quantize"


class Codes:
    """Stores tensors named in the quantization file as integer codes."""

    def __init__(self, at: GraphBuilder, quantized: Mapping[str, Quantization]) -> None:
        self._at = at
        self._quantized = quantized
        self._known: dict[Value, Value] = {}

    def __contains__(self, value: Value) -> bool:
        """Whether `value` was dequantized from codes and needs no rounding."""
        return value in self._known

    def quantize(self, x: Value, name: str) -> Value | None:
        """Quantize a tensor named in the file: floats are rounded, integers are codes already.

        Returns `None` if the file contains no affine quantization for it.
        """
        quantization = self._quantized[name]
        given = quantization.arguments
        if quantization.operation != _LINEAR or not isinstance(given["scale"], float | int):
            return None
        codes = self._encoded(x, quantization)
        (real,) = self._at.node("decoded", [codes], 1, dialect=DIALECT, names=[name], **_steps(quantization))
        self._known[real] = codes
        return real

    def _encoded(self, x: Value, quantization: Quantization) -> Value:
        signed = bool(quantization.arguments["signed"])
        return self._at.node("encoded", [x], 1, dialect=DIALECT, signed=signed, **_steps(quantization))[0]

    def operands(self, op_type: str, formal: str, values: Sequence[Value | None]) -> list[Value | None]:
        """Return the operands of a parameter, as codes if the operator computes with codes."""
        if formal not in _OF_CODES.get(op_type, ()):
            return list(values)
        return [None if value is None else self._of(value) for value in values]

    def _of(self, value: Value) -> Value:
        quantization = self._quantized.get(value.name)
        if value in self._known:
            return self._known[value]
        if quantization is None or quantization.operation != _LINEAR:
            return value
        if isinstance(value.storage, Decoded):
            stored = value.storage.codes
            codes = self._at.home.add_constant(self._at.home.fresh(value.name), TensorFact.of(stored), stored)
        else:
            codes = self._encoded(value, quantization)
        self._known[value] = codes
        return codes

    def real_bias(self, operands: list[Value | None], formals: Sequence[str]) -> list[Value | None]:
        """Dequantize an integer bias of quantized operands by the product of their scales."""
        if list(formals[:3]) != ["input", "filter", "bias"] or len(operands) < len(formals[:3]):
            return operands
        scales = [self._scale(value) for value in operands[:2]]
        bias = operands[2]
        if None in scales or bias is None:
            return operands
        scale = float(np.prod([each for each in scales if each is not None]))
        (real,) = self._at.node("quantized_bias", [bias], 1, dialect=DIALECT, scale=scale)
        return [*operands[:2], real, *operands[3:]]

    def _scale(self, value: Value | None) -> float | None:
        found = None if value is None else self._quantized.get(value.name)
        scale = None if found is None else found.arguments.get("scale")
        return scale if isinstance(scale, float) else None


def _steps(quantization: Quantization) -> dict[str, Any]:
    given = quantization.arguments
    scale, zero = given["scale"], given["zero_point"]
    if not isinstance(scale, float | int) or not isinstance(zero, float | int):
        return {"scale": 1.0, "zero_point": 0}
    return {"scale": float(scale), "zero_point": int(zero)}
