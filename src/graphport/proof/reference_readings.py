"""Compare quantized outputs that agree only loosely once more on the reference interpreter.

A kernel may round quantized values to a neighbour, which hides a scale that is a few percent off. The readings round
where the files state it, and both are computed by one backend: they agree tightly unless the files differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.backends import preferred, prepare
from graphport.comparison.metrics import Difference, difference
from graphport.core.diagnostics import DiagnosticError
from graphport.proof import quantization_ties
from graphport.proof.case import BETWEEN_STEPS, describe
from graphport.proof.run import Configuration, Run
from graphport.proof.side import paired
from graphport.runtimes.inputs import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.proof.case import Case
    from graphport.proof.test_inputs import TestInput

TIGHT_SNR = 60.0
"""Decibels from which outputs of native runtimes need no further comparison."""


def compare_readings(case: Case, test_input: TestInput, found: Sequence[Difference]) -> None:
    """Record a run of graphport's graphs of both files if quantized outputs agree only within rounding tolerance.

    Only for the first test input of ordinary values that needs it.

    Args:
        case: the proof.
        test_input: what both native runtimes computed.
        found: how their outputs differ.
    """
    is_loose = case.tolerance.of_steps and case.tolerance.least_snr is not None
    if not is_loose or case.are_readings_compared or test_input.kind != "normal":
        return
    if not all(each.passed for each in found) or all(each.snr_db is None or each.snr_db >= TIGHT_SNR for each in found):
        return
    case.are_readings_compared = True
    wrong = _differing(case, test_input)
    if not wrong:
        return
    case.runs.append(
        Run(
            "b",
            "reference",
            "",
            Configuration.READING,
            f"{test_input.label}, as graphport reads both files",
            loaded=True,
            ran=True,
            agrees=False,
            max_abs=max(each.max_abs or 0.0 for each in wrong),
            reason=f"the outputs differ: {describe(wrong[0])}",
        )
    )


def _differing(case: Case, test_input: TestInput) -> list[Difference]:
    """Return the outputs that graphport's graphs of both files compute differently; empty if one does not run."""
    a, b = case.a.graph, case.b.graph
    first = _outputs(a, test_input.arrays)
    second = _outputs(b, paired(test_input.arrays, a, b))
    if first is None or second is None or len(first) != len(second):
        return []
    found = [
        difference(value.name, np.asarray(x, np.float32), np.asarray(y, np.float32).reshape(np.shape(x)))
        for value, x, y in zip(a.outputs, first, second, strict=True)
        if np.size(x) == np.size(y) and getattr(x, "dtype", None) is not None and x.dtype.kind in "fiu"
    ]
    if len(found) == len(first):
        # The native runtimes agree within the tolerance, so that layers may have amplified a tie.
        found = quantization_ties.without(found, case.a, test_input, [], frozenset(range(len(found))))
    return [each for each in found if not each.passed and (each.snr_db or 0.0) < BETWEEN_STEPS]


def _outputs(graph: Graph, arrays: Mapping[str, Any]) -> list[Any] | None:
    try:
        found = prepare(graph, preferred(graph)[0]).run(checked(graph, dict(arrays)))
    except (DiagnosticError, IndexError):
        return None
    return [found[value.name] for value in graph.outputs]
