"""Replace `Constant` nodes by constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.storage import ArrayStorage
from graphport.ops.definitions.generate import constant_value
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node

MAX_DENSE_BYTES = 1 << 26
"""Size limit in bytes of a sparse value that becomes a dense constant."""


def lift_constants(graph: Graph, journal: Journal) -> None:
    """Replace each `Constant` node by a constant of its graph.

    Before  w = Constant(value=…);  y = Conv(x, w)
    After   y = Conv(x, w)   with w among the constants of the graph

    All attribute forms (`value`, `value_float`, `value_ints`, `value_string`, `sparse_value`, …). A result that is a
    graph output keeps its name. A sparse value becomes dense, because few operators accept sparse initializers. Does
    not apply to sparse values of more than `MAX_DENSE_BYTES` bytes. Preserves values bit for bit.
    """
    apply(graph, journal, _lift, {"Constant"})


def _lift(node: Node) -> str:
    graph, old = graph_of(node), node.output
    storage = constant_value(node.attributes)
    if node.attributes.get("sparse_value") is not None:
        if storage.nbytes > MAX_DENSE_BYTES:
            raise NotApplicable(f"its sparse value needs {storage.nbytes} bytes in dense form")
        storage = ArrayStorage(storage.numpy(), storage.dtype)
    new = add_constant(graph, storage, old.name)
    take_over(old, new)
    graph.remove(node)
    return "is a constant of the graph"
