"""Zeros around an operand, as pads of the convolution that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops.products import numbers, sole_reader
from graphport.passes.journal import Journal, Left, apply

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def fuse_pads(graph: Graph, journal: Journal) -> None:
    """Let a Conv pad what a Pad before it pads with zeros.

    Before  h = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]);  y = Conv(h, w)
    After   y = Conv(x, w, pads=[1, 1, 1, 1])

    Leaves alone: other modes and numbers, pads of the batch or the channels, pads that cut, `auto_pad`, an `h` that
    somebody else reads. Keeps values bit for bit.
    """
    apply(graph, journal, _fuse, {"Pad"})


def _fuse(node: Node) -> str | None:
    reader = sole_reader(node.output)
    if reader is None or reader.op != "Conv" or reader.operand(0) is not node.output:
        return None
    if node.attributes.get("mode", "constant") != "constant":
        raise Left("it does not pad with a number")
    if reader.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Left("the Conv behind it chooses its pads itself")
    filler, pads = numbers(node.operand(2)), _pads(node)
    if node.operand(2) is not None and (filler is None or filler.any()):
        raise Left("it does not pad with 0")
    rank = len(pads) // 2
    if min(pads, default=0) < 0 or any(pads[axis] for axis in (0, 1, rank, rank + 1)):
        raise Left("it cuts, or pads the batch or the channels")
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
    return f"became pads of Conv {reader.name}".rstrip()


def _pads(node: Node) -> list[int]:
    """Begins and ends of all axes."""
    given, value = numbers(node.operand(1)), node.operand(0)
    fact = None if value is None else value.fact
    if given is None or not isinstance(fact, TensorFact) or fact.shape is None:
        raise Left("its pads are computed, or the rank is not known")
    rank = len(fact.shape)
    axes = list(range(rank))
    if node.operand(3) is not None:
        found = numbers(node.operand(3))
        if found is None:
            raise Left("its axes are computed")
        axes = [int(axis) % rank for axis in found.reshape(-1)]
    pads = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = int(given[place]), int(given[len(axes) + place])
    return pads
