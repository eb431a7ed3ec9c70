"""Conversion of a dialect graph to the canonical dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion.hooks import after_legalizing, before_legalizing
from graphport.conversion.legalizer import Legalizer, legalize_nodes
from graphport.core.garbage_collection import paused_collection
from graphport.core.progress import stage
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.core.diagnostics import Diagnostic
    from graphport.ir.graph import Graph


def is_canonical(graph: Graph) -> bool:
    """Whether every node, including those in bodies, is a canonical operator."""
    return all(not node.dialect for inner in walk(graph) for node in inner)


def legalize(
    graph: Graph,
    *,
    check_declared: bool = True,
    keep: Collection[str] = (),
    in_place: bool = False,
    exact: bool = False,
) -> tuple[Graph, list[Diagnostic]]:
    """Convert `graph` to the canonical dialect and infer all facts. Return the canonical graph and the findings.

    Every value keeps its name, dtype, rank and layout. A node without a canonical form is kept unchanged, and a warning
    states the reason. A canonical graph is returned itself, any other graph as a copy.

    Args:
        graph: in any dialect; not changed unless `in_place`.
        check_declared: report a contradiction between a declared and an inferred fact as a finding.
        keep: dialects whose nodes are kept unchanged even if they have a canonical form.
        in_place: change `graph` itself; no other code may use it.
        exact: keep the nodes that the reference interpreter computes bit for bit as the native runtime does.
    """
    if is_canonical(graph):
        return graph, []
    with paused_collection():
        result = graph if in_place else rewrite.copy(graph)
        present = dict.fromkeys(node.dialect for inner in walk(result) for node in inner)
        worker = Legalizer(result, check_declared=check_declared, keep=frozenset(keep), exact=exact)
        worker.inference.findings += before_legalizing(result, present, legalize_nodes)
        worker.inference.meet(result)
        with stage("legalizing", len(result), "nodes") as step:
            worker.graph(result, step)
        after_legalizing(result, present)
        worker.inference.conclude(result)
    dialects = {node.dialect for inner in walk(result) for node in inner}
    result.opsets = {"": OPSET} | {d: v for d, v in result.opsets.items() if d != "" and (d != "onnx" or d in dialects)}
    return result, list(dict.fromkeys(worker.inference.findings))
