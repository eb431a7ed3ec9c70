"""Report operators whose int8 kernels round differently from QuantizeLinear, which rounds half to even."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Graph, Node

_TIE_DENOMINATOR = 256
"""Fractions of a step for which ties are likely: other factors rarely produce exact ties."""


def rounding_note(graph: Graph) -> list[Diagnostic]:
    """Create a note (TFL0306) on nodes whose integer results may differ by one step from QuantizeLinear.

    Measured in LiteRT 2.3.0: all kernel sets round these operators half away from zero, where ties occur, and a few
    multiply by factors of few bits.
    """
    nodes = [node for inner in walk(graph) for node in inner if _is_short(node) and _RULES[node.op_type](node)]
    if not nodes:
        return []
    listed = ", ".join(
        f"{op_type} ({count})" for op_type, count in Counter(node.op_type for node in nodes).most_common()
    )
    message = f"LiteRT's kernels round differently from QuantizeLinear in {listed}: integers may differ by one step"
    remedy = "see docs/tflite.md for the share of affected elements; following layers may increase the difference"
    return [Diagnostic("TFL0306", message, nodes[0].origin, remedy, Severity.NOTE)]


def _is_short(node: Node) -> bool:
    results = cast("Any", node.attributes.get("quantized_results")) or (None,)
    return node.op_type in _RULES and results[0] is not None and results[0][0] is DType.INT8


def _factors(node: Node) -> list[float]:
    """Return the factors that convert operand integers to steps of the result."""
    step = np.float32(cast("Any", node.attributes["quantized_results"])[0][2][0])
    entries = cast("Any", node.attributes.get("quantized")) or ()
    return [float(np.float32(quantization[2][0]) / step) for quantization in entries if quantization is not None]


def _may_tie(factors: list[float]) -> bool:
    """Whether sums of integers times these factors can be ties."""
    parts = [factor * _TIE_DENOMINATOR for factor in factors]
    return all(part == round(part) for part in parts) and any(part % _TIE_DENOMINATOR for part in parts)


def _has_even_window(node: Node) -> bool:
    cells = [cast("int", node.attributes.get(f"filter_{side}") or 1) for side in ("height", "width")]
    # With padding (SAME is 0), windows at the borders are smaller.
    is_cut = not node.attributes.get("padding") and max(cells) > 1
    return is_cut or cells[0] * cells[1] % 2 == 0


def _mean_may_tie(node: Node) -> bool:
    x, axes = (*node.inputs, None, None)[:2]
    storage = None if axes is None else axes.storage
    if storage is None or x is None or not isinstance(x.fact, TensorFact):
        return False
    extents = dict(enumerate(x.fact.dims))
    numbers = cast("list[int]", storage.numpy().reshape(-1).tolist())
    summed = [extents.get(axis % max(len(extents), 1)) for axis in numbers]
    if not all(isinstance(extent, int) and extent for extent in summed):
        return False
    count = math.prod(cast("list[int]", summed))
    return _may_tie([factor / count for factor in _factors(node)])


def _always(_: Node) -> bool:
    return True


_RULES: Mapping[str, Callable[[Node], bool]] = {
    "AVERAGE_POOL_2D": _has_even_window,
    "MEAN": _mean_may_tie,
    **dict.fromkeys(("ADD", "SUB", "QUANTIZE"), lambda node: _may_tie(_factors(node))),
    **dict.fromkeys(("RESIZE_BILINEAR", "LEAKY_RELU", "PRELU", "HARD_SWISH", "RSQRT", "SQUARED_DIFFERENCE"), _always),
}
