"""What runtimes are known to compute otherwise than their format says; such a witness is not asked.

What a runtime can be told to leave is switched off where it is loaded (`runtimes`); docs/proof.md lists both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Graph, Node


class Fault(NamedTuple):
    """A fault of a runtime: in which version it was seen, what it is, and the nodes that meet it."""

    runtime: str
    seen: str
    what: str
    is_met: Callable[[Node], bool]


def _reads_backwards_with_lengths(node: Node) -> bool:
    # The fifth operand of recurrent layers has the number of steps of each sample.
    is_recurrent = "hidden_size" in node.attributes
    return is_recurrent and node.attributes.get("direction", "forward") != "forward" and node.operand(4) is not None


def _slices_backwards(node: Node) -> bool:
    steps = node.operand(4) if node.op == "Slice" else None
    if steps is None or steps.storage is None:
        return False
    return bool((steps.storage.numpy() < 0).any())


def _is_across_channels(node: Node) -> bool:
    return node.op == "LRN"


FAULTS: tuple[Fault, ...] = (
    Fault(
        "openvino",
        "2026.4.1",
        "recurrent layers over sequences of several lengths, in reverse or in both directions",
        _reads_backwards_with_lengths,
    ),
    Fault("tract", "0.23.9", "slices with a negative step", _slices_backwards),
    Fault("tract", "0.23.9", "normalization over neighbouring channels", _is_across_channels),
)


def known_fault(runtime: str, graph: Graph) -> Fault | None:
    """A fault of `runtime` that a graph meets."""
    known = [fault for fault in FAULTS if fault.runtime == runtime]
    nodes = (node for inner in walk(graph) for node in inner) if known else ()
    return next((fault for node in nodes for fault in known if fault.is_met(node)), None)
