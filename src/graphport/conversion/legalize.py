"""A dialect's graph in canonical words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion.hooks import after_legalizing, before_legalizing
from graphport.conversion.legalizer import Legalizer, legalize_nodes
from graphport.core.collection import paused_collection
from graphport.core.progress import stage
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.core.diagnostics import Diagnostic
    from graphport.ir.graph import Graph


def is_canonical(graph: Graph) -> bool:
    """Whether every node, bodies included, is a canonical operator."""
    return all(not node.dialect for inner in walk(graph) for node in inner)


def legalize(
    graph: Graph,
    *,
    check_declared: bool = True,
    keep: Collection[str] = (),
    in_place: bool = False,
    exact: bool = False,
) -> tuple[Graph, list[Diagnostic]]:
    """`graph` with every node that has a canonical form in it, facts set, and what was found on the way.

    Every value of the dialect keeps its name, element type, rank and layout; where channels are last, Transposes
    that meet take values with them. A node without canonical form stays as it is; the finding (a warning) says why. A
    graph that is canonical already is returned itself; else a copy.

    Args:
        graph: in any dialect; not changed unless `in_place`.
        check_declared: facts that the file declares are claims, a contradiction is a finding.
        keep: dialects whose nodes stay as they are, also where they have a canonical form.
        in_place: whether `graph` itself, which nobody else holds, becomes the canonical one.
        exact: nodes stay as they are that the reference computes to the last bit as the format's own runtime does.
    """
    if is_canonical(graph):
        return graph, []
    with paused_collection():
        result = graph if in_place else rewrite.copy(graph)
        present = dict.fromkeys(node.dialect for inner in walk(result) for node in inner)
        worker = Legalizer(result, check_declared=check_declared, keep=frozenset(keep), exact=exact)
        worker.inference.findings += before_legalizing(result, present, legalize_nodes)
        worker.inference.meet(result)
        with stage("reading nodes in canonical words", len(result), "nodes") as step:
            worker.graph(result, step)
        after_legalizing(result, present)
        worker.inference.conclude(result)
    dialects = {node.dialect for inner in walk(result) for node in inner}
    result.opsets = {"": OPSET} | {d: v for d, v in result.opsets.items() if d != "" and (d != "onnx" or d in dialects)}
    return result, list(dict.fromkeys(worker.inference.findings))
