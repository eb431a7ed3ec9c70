"""Differences of quantized models that come from numbers in the middle of two steps, which go to either side.

Runtimes add real numbers in different orders. A sum that is half a step to the last places is rounded up by one and
down by another, and from there on everything differs by what one step is worth.
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
from graphport.ops.pages.quantization import QuantizeLinear
from graphport.passes.substitution import add_constant
from graphport.runtimes.inputs import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.comparison.metrics import Difference
    from graphport.ir.graph import Graph
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput

_SHIFT = 2.0**-18
"""Beside a number, how far another order of its sum may move it: 32 places of single precision."""
_TIMES = 2.0
"""How many times what moving all numbers so changes of an output two runtimes may differ by."""
_LEAST = 40.0
"""Decibels that they keep where nothing else shows that they compute the same."""


def open_ties(found: Sequence[Difference]) -> frozenset[int]:
    """The outputs, by position, that differ by more than ties alone excuse, and by less than wrong numbers do."""
    return frozenset(at for at, each in enumerate(found) if not each.passed and QUANTIZED <= _signal(each) < _LEAST)


def rounding_ties(
    side: Side, draw: TestInput, found: Sequence[Difference], close: frozenset[int] = frozenset()
) -> frozenset[int]:
    """The outputs, by position, whose difference is what numbers in the middle of two steps make of it.

    The model of `side` is computed twice, with each number that it rounds moved up and moved down by its last places:
    only those in the middle of two steps are rounded otherwise then, and what these change is held against `found`.
    Outputs that are `close` in another draw, where nothing was in the middle, may differ by as much as a step of each
    number makes: layers behind a tie make more of it, a softmax with a large scale for one.
    """
    wrong = [
        at
        for at, each in enumerate(found)
        if not each.passed and each.reason is None and _signal(each) >= (QUANTIZED if at in close else _LEAST)
    ]
    if not wrong:
        return frozenset()
    ends = [_computed(moved, draw) for way in (1, -1) if (moved := _moved(side.graph, way)) is not None]
    if len(ends) < 2 or any(len(outputs) != len(found) for outputs in ends):
        return frozenset()
    return frozenset(at for at in wrong if _is_small(found[at], ends[0][at], ends[1][at]))


def without(
    found: list[Difference], side: Side, draw: TestInput, notes: list[str], close: frozenset[int] = frozenset()
) -> list[Difference]:
    """Without such differences, which the notes tell."""
    tied = rounding_ties(side, draw, found, close)
    names = [f"{found[at].name} by {found[at].max_abs:.3g} ({found[at].snr_db:.1f} dB)" for at in sorted(tied)]
    if names:
        notes.append(f"{draw.label}: what is in the middle of two steps is rounded to either: {', '.join(names)}")
    return [replace(each, passed=True) if at in tied else each for at, each in enumerate(found)]


def _is_small(each: Difference, up: Any, down: Any) -> bool:
    if each.max_abs is None or np.shape(up) != np.shape(down):
        return False
    change = np.asarray(up, np.float64) - np.asarray(down, np.float64)
    if not np.isfinite(change).all():
        return False
    signal = float(np.sum(np.asarray(down, np.float64) ** 2))
    noise = signal * 10 ** (-_signal(each) / 10)
    # Few numbers are in the middle: where more were rounded otherwise, each by one step, the noise tells.
    is_rare = noise <= _TIMES**2 * float(np.sum(change**2))
    return is_rare and each.max_abs <= _TIMES * float(np.abs(change).max(initial=0.0))


def _signal(each: Difference) -> float:
    return each.snr_db or 0.0


def _moved(graph: Graph, way: int) -> Graph | None:
    """`graph` where all that is rounded is larger, or smaller, by its last places; `None` where nothing is."""
    twin, is_any = rewrite.copy(graph), False
    for inner in walk(twin):
        for node in inner:
            if node.dialect or node.op != QuantizeLinear.name:
                continue
            x, scale = node.operands[0], node.operands[1]
            if x.is_constant or scale.storage is None or scale.storage.dtype.numpy != np.float32:
                continue
            # A smaller step has a number nearer to the next one.
            moved = np.asarray(scale.storage.numpy() * np.float32(1 - way * _SHIFT))
            node.set_input(1, add_constant(inner, moved, f"{scale.name}_moved"))
            is_any = True
    return twin if is_any else None


def _computed(graph: Graph, draw: TestInput) -> list[Any]:
    """What a quick backend computes; nothing if none can."""
    name = next((each for each in preferred(graph) if each != "reference"), "reference")
    try:
        outputs = prepare(graph, name).run(checked(graph, dict(draw.arrays)))
    except DiagnosticError:
        return []
    return [outputs[value.name] for value in graph.outputs]
