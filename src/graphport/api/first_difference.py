"""Localize the first differing node of a failed proof."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphport.api.compare import find_difference
from graphport.api.model import Model
from graphport.backends import reference
from graphport.comparison.limits import Limits
from graphport.comparison.metrics import Reason
from graphport.core.diagnostics import DiagnosticError
from graphport.core.progress import stage
from graphport.proof.document import FirstWrong
from graphport.proof.faults import pole
from graphport.proof.side import paired
from graphport.runtimes import memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Node
    from graphport.proof.case import Tolerance
    from graphport.proof.document import Proof
    from graphport.proof.side import Side
    from graphport.proof.test_inputs import TestInput

_SECONDS = 10.0
"""Time limit of the search."""


def add_first_wrong(proof: Proof, a: Side, b: Side, tolerance: Tolerance) -> Proof:
    """Add the first differing node to a failed proof, or a note with the reason why it was not found.

    Both models are computed as read, on the test input on which they differ, within limits of time and memory.
    """
    labels = [output.draw for output in proof.outputs if not output.passed]
    draw = next((draw for draw in proof.draws if draw.label in labels), None)
    if draw is None:
        return proof
    needed = sum(memory.needed(side.graph, draw.sizes) for side in (a, b))
    reason = memory.shortage(needed)
    try:
        first = _find_first_wrong(a, b, draw, tolerance) if reason is None else None
    except TimeoutError:
        first, reason = None, f"the search would take longer than {_SECONDS:g} s"
    except DiagnosticError as error:
        first, reason = None, error.diagnostics[0].message
    # An internal error of the search must not hide that the proof has failed.
    except Exception as error:  # noqa: BLE001
        first, reason = None, f"{type(error).__name__}: {error}"
    if first is not None:
        return replace(proof, first=first)
    is_unlike = any(output.reason is Reason.UNLIKE for output in proof.outputs if not output.passed)
    pole_reason = _find_pole(a, b, draw) if reason is None and is_unlike else None
    reason = reason or "no paired values of equal shape differ when both models are computed by graphport"
    return replace(proof, notes=(*proof.notes, pole_reason or f"the first differing node is unknown: {reason}"))


def _find_pole(a: Side, b: Side, draw: TestInput) -> str | None:
    """Return which node of the second model its runtime computes wrongly because an operand is 0."""
    runtime = None if b.runtime is None else b.runtime.name
    found: list[str] = []

    def watch(node: Node, operands: Sequence[Any], _: Sequence[Any]) -> None:
        found.extend(filter(None, [pole(runtime, node, operands)]))

    with suppress(DiagnosticError, TimeoutError, KeyError):
        arrays = paired(draw.arrays, a.graph, b.graph)
        reference.prepare(b.graph).run(arrays, watch=watch, deadline=monotonic() + _SECONDS)
    return next(iter(found), None)


def _find_first_wrong(a: Side, b: Side, draw: TestInput, tolerance: Tolerance) -> FirstWrong | None:
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
    # The second side may be a temporary file, so the location in the source is reported.
    (value,) = found.a.graph.outputs
    node = value.producer
    name, operator = (found.node, found.operator) if node is None else (node.name or value.name, node.op)
    origin = found.origin if node is None else node.origin
    return FirstWrong(name, operator, found.difference, (a.label, b.label), origin)
