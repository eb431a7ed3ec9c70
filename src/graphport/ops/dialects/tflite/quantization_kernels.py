"""Changes of what integers stand for, as LiteRT's reference kernels round them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.ops.declare import exact
from graphport.ops.dialects.tflite.binding import DIALECT, Quantization
from graphport.ops.dialects.tflite.fixed_point import twice
from graphport.ops.dialects.tflite.integer_kernels import ALL, Given

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from graphport.ir.graph import Node
    from graphport.ops.dialects.tflite.fixed_point import Numbers


def _is_taken(node: Node) -> bool:
    told = cast("Sequence[Quantization | None]", node.attributes.get("quantized_results") or (None,))[0]
    return told is not None and told[1] < 0 and told[0] in ALL


@exact(DIALECT, "QUANTIZE", when=_is_taken)
def quantize(
    x: Numbers,
    *,
    quantized: Sequence[Quantization | None] = (),
    quantized_results: Sequence[Quantization] = (),
    **options: Any,
) -> Numbers:
    """Reals in steps, halves away from zero; integers in other steps, rounded twice."""
    given = Given([x], options, quantized or (None,), quantized_results[0])
    if given.quantized[0] is not None:
        return given.clamped(twice(given.centred(0), float(given.scale(0)) / float(given.step)))
    quotient = np.where(np.isnan(x), 0, x.astype(np.float32) / given.step).astype(np.float64)
    steps = np.trunc(quotient + np.copysign(0.5, quotient))
    return given.clamped(np.clip(steps, -(1 << 40), 1 << 40).astype(np.int64))
