"""Differences of quantized models due to values halfway between two integers, which round either way.

Runtimes add floats in different orders. One rounds a sum that is halfway between two integers up, another rounds it
down, and all that depends on it differs by one step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends import preferred, prepare
from graphport.comparison.precision import QUANTIZED
from graphport.core.diagnostics import DiagnosticError
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.passes.substitution import add_constant
from graphport.runtimes.inputs import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.comparison.metrics import Difference
    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput

_SHIFT = 2.0**-16
"""Relative change of a sum by another order of its terms, which partly cancel: 128 ulps of float32."""
_REQUANTIZATION_SHIFT = 2.0**-9
"""Largest change of the ratio of two scales by XNNPACK, which rounds it to 8 bits after the point in QUANTIZE."""
_TIMES = 2.0
"""Factor by which two runtimes may differ beyond the change of an output by that shift."""
_LEAST = 40.0
"""Decibels required of an output that never agreed tightly."""
_MAX_STEPS = 3.0
"""Steps of a quantized output that ties explain at any magnitude: a small output has few steps."""


def open_ties(found: Sequence[Difference]) -> frozenset[int]:
    """Return the outputs whose difference is too large for single ties and too small for a wrong value."""
    return frozenset(at for at, each in enumerate(found) if not each.passed and QUANTIZED <= _signal(each) < _LEAST)


def rounding_ties(
    side: Side, test_input: TestInput, found: Sequence[Difference], close: frozenset[int] = frozenset()
) -> frozenset[int]:
    """Positions of the outputs whose difference is explained by values halfway between two integers.

    The model of `side` is computed twice, with every value that it rounds moved up and down by `_SHIFT`: only values
    halfway between two integers are then rounded otherwise, and that change is compared with `found`. Outputs that are
    `close` for another test input may differ by a step of each value: layers after a tie may amplify it.
    """
    wrong = [
        at
        for at, each in enumerate(found)
        if not each.passed and each.reason is None and _may_be_tied(side.graph, at, each, is_close=at in close)
    ]
    if not wrong:
        return frozenset()
    ends = [_computed(moved, test_input) for way in (1, -1) if (moved := _moved(side.graph, way)) is not None]
    if len(ends) < 2 or any(len(outputs) != len(found) for outputs in ends):
        return frozenset()
    return frozenset(at for at in wrong if _is_small(found[at], ends[0][at], ends[1][at]))


def _may_be_tied(graph: Graph, at: int, each: Difference, *, is_close: bool) -> bool:
    """Whether ties may cause an output's difference, by its SNR or its number of quantization steps."""
    if _signal(each) >= (QUANTIZED if is_close else _LEAST):
        return True
    step = _step(graph.outputs[at]) if is_close and at < len(graph.outputs) else None
    return step is not None and each.max_abs is not None and each.max_abs <= _MAX_STEPS * step


def _step(value: Value) -> float | None:
    """Return the least scale of the DequantizeLinear that computes an output; 1 for quantized integers."""
    node = value.producer
    if node is not None and not node.dialect and node.op == QuantizeLinear.name:
        return 1.0
    scale = None if node is None or node.dialect or node.op != DequantizeLinear.name else node.operands[1].storage
    return None if scale is None or not scale.count else float(scale.numpy().min())


def without(
    found: list[Difference], side: Side, test_input: TestInput, notes: list[str], close: frozenset[int] = frozenset()
) -> list[Difference]:
    """Mark outputs whose difference rounding ties explain as passed, and add a note that lists them."""
    tied = rounding_ties(side, test_input, found, close)
    names = [f"{found[at].name} by {found[at].max_abs:.3g} ({found[at].snr_db:.1f} dB)" for at in sorted(tied)]
    if names:
        notes.append(f"{test_input.label}: values halfway between two integers round either way: {', '.join(names)}")
    return [replace(each, passed=True) if at in tied else each for at, each in enumerate(found)]


def _is_small(each: Difference, up: Any, down: Any) -> bool:
    if each.max_abs is None or np.shape(up) != np.shape(down):
        return False
    change = np.asarray(up, np.float64) - np.asarray(down, np.float64)
    if not np.isfinite(change).all():
        return False
    signal = float(np.sum(np.asarray(down, np.float64) ** 2))
    noise = signal * 10 ** (-_signal(each) / 10)
    # Few values are halfway: if more were rounded otherwise, the noise is larger.
    is_rare = noise <= _TIMES**2 * float(np.sum(change**2))
    return is_rare and each.max_abs <= _TIMES * float(np.abs(change).max(initial=0.0))


def _signal(each: Difference) -> float:
    return each.snr_db or 0.0


def _moved(graph: Graph, way: int) -> Graph | None:
    """Copy `graph` with quantized values scaled up (`way` 1) or down (-1) by `_shift`; `None` without any."""
    twin, is_any = rewrite.copy(graph), False
    for inner in walk(twin):
        for node in inner:
            if node.dialect or node.op != QuantizeLinear.name:
                continue
            x, scale = node.operands[0], node.operands[1]
            if x.is_constant or scale.storage is None or scale.storage.dtype.numpy != np.float32:
                continue
            # With a smaller step a value is nearer to the next integer.
            moved = np.asarray(scale.storage.numpy() * np.float32(1 - way * _shift(node)))
            node.set_input(1, add_constant(inner, moved, f"{scale.name}_moved"))
            is_any = True
    return twin if is_any else None


def _shift(node: Node) -> float:
    """Return the relative error of a QuantizeLinear's operand due to summation order or a rounded scale ratio."""
    before = node.operands[0].producer
    if before is None or before.dialect or before.op != DequantizeLinear.name:
        return _SHIFT
    scales = [each.operands[1].storage for each in (before, node)]
    if any(scale is None or scale.count != 1 for scale in scales):
        return _SHIFT
    first, second = (float(scale.numpy().reshape(())) for scale in scales if scale is not None)
    return max(_SHIFT, min(_REQUANTIZATION_SHIFT * second / first, 0.5)) if first > 0 else _SHIFT


def _computed(graph: Graph, test_input: TestInput) -> list[Any]:
    """Return the outputs of a fast backend; empty if none computes the graph."""
    name = next((each for each in preferred(graph) if each != "reference"), "reference")
    try:
        outputs = prepare(graph, name).run(checked(graph, dict(test_input.arrays)))
    except DiagnosticError:
        return []
    return [outputs[value.name] for value in graph.outputs]
