"""The node that is to blame where numbers have refuted a proof."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.api.compare import find_difference
from graphport.api.model import Model
from graphport.comparison.limits import Limits
from graphport.comparison.metrics import Reason
from graphport.core.diagnostics import DiagnosticError
from graphport.core.progress import stage
from graphport.proof.document import FirstWrong
from graphport.runtimes import memory

if TYPE_CHECKING:
    from graphport.proof.case import Tolerance
    from graphport.proof.document import Proof
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput

_SECONDS = 10.0
"""What the search may take."""


def explained(proof: Proof, a: Side, b: Side, tolerance: Tolerance) -> Proof:
    """`proof`, with the first wrong node where outputs differ, or a note why none is told.

    Both sides are computed as they were read, on the numbers that told them apart, within limits of time and memory.
    """
    labels = [output.draw for output in proof.outputs if not output.passed]
    draw = next((draw for draw in proof.draws if draw.label in labels), None)
    if draw is None:
        return proof
    needed = sum(memory.needed(side.graph, draw.sizes) for side in (a, b))
    reason = memory.shortage(needed)
    try:
        first = _found(a, b, draw, tolerance) if reason is None else None
    except TimeoutError:
        first, reason = None, f"it would take longer than {_SECONDS:g} s"
    except DiagnosticError as error:
        first, reason = None, error.diagnostics[0].message
    # The proof has failed, and says so also where a fault of the search is met.
    except Exception as error:  # noqa: BLE001
        first, reason = None, f"{type(error).__name__}: {error}"
    if first is not None:
        return replace(proof, first=first)
    reason = reason or "as we read both, no values of one shape that have names in both differ by themselves"
    return replace(proof, notes=(*proof.notes, f"the first wrong node is not told: {reason}"))


def _found(a: Side, b: Side, draw: TestInput, tolerance: Tolerance) -> FirstWrong | None:
    limits = Limits(least_snr=tolerance.least_snr)
    with stage("looking for the first wrong node"):
        found = find_difference(Model(a.graph), Model(b.graph), draw.arrays, limits=limits, seconds=_SECONDS)
    # Another shape is the way of some formats, no wrong number.
    if (
        found is None
        or not found.is_beyond
        or (found.difference.max_abs is None and found.difference.reason is not Reason.UNLIKE)
    ):
        return None
    # The second side may be a file that is gone when this is read: what is told is where the source has it.
    (value,) = found.a.graph.outputs
    node = value.producer
    name, operator = (found.node, found.operator) if node is None else (node.name or value.name, node.op)
    origin = found.origin if node is None else node.origin
    return FirstWrong(name, operator, found.difference, (a.label, b.label), origin)
