"""Fold Pad with zeros into convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops.products import constant_elements, sole_consumer
from graphport.passes.journal import Journal, NotApplicable, apply

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def fuse_pads(graph: Graph, journal: Journal) -> None:
    """Fold a Pad with zeros into the pads of the following Conv.

    Before  h = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]);  y = Conv(h, w)
    After   y = Conv(x, w, pads=[1, 1, 1, 1])

    Does not apply to other modes and fill values, padding of batch or channels, negative pads, `auto_pad`, or an `h`
    with another consumer. Preserves values bit for bit.
    """
    apply(graph, journal, _fuse, {"Pad"})


def _fuse(node: Node) -> str | None:
    reader = sole_consumer(node.output)
    if reader is None or reader.op != "Conv" or reader.operand(0) is not node.output:
        return None
    if node.attributes.get("mode", "constant") != "constant":
        raise NotApplicable("its fill value is computed")
    if reader.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NotApplicable("the following Conv uses auto_pad")
    filler, pads = constant_elements(node.operand(2)), _pads(node)
    if node.operand(2) is not None and (filler is None or filler.any()):
        raise NotApplicable("its fill value is not 0")
    rank = len(pads) // 2
    if min(pads, default=0) < 0 or any(pads[axis] for axis in (0, 1, rank, rank + 1)):
        raise NotApplicable("it crops, or pads batch or channels")
    source = node.operand(0)
    if source is None:
        return None
    added = [*pads[2:rank], *pads[rank + 2 :]]
    old = reader.attributes.get("pads")
    own = [pad for pad in old if isinstance(pad, int)] if isinstance(old, tuple) else [0] * len(added)
    reader.remove_attribute("auto_pad")
    reader.set_attribute("pads", tuple(a + b for a, b in zip(added, own, strict=True)))
    rewrite.replace(node.output, source)
    rewrite.erase(node)
    return f"folded into the pads of Conv {reader.name}".rstrip()


def _pads(node: Node) -> list[int]:
    """Return the pads of all axes: begins, then ends."""
    given, value = constant_elements(node.operand(1)), node.operand(0)
    fact = None if value is None else value.fact
    if given is None or not isinstance(fact, TensorFact) or fact.shape is None:
        raise NotApplicable("its pads are computed, or the rank is unknown")
    rank = len(fact.shape)
    axes = list(range(rank))
    if node.operand(3) is not None:
        found = constant_elements(node.operand(3))
        if found is None:
            raise NotApplicable("its axes are computed")
        axes = [int(axis) % rank for axis in found.reshape(-1)]
    pads = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = int(given[place]), int(given[len(axes) + place])
    return pads
