"""Graph passes of exported programs: functionalization, control flow, complex tensors.

In-place writes are replaced by new values, regions are inlined, branches and loops are converted to ONNX operators,
and complex tensors are represented by real ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.pytorch.graph_passes import complex as pytorch_complex
from graphport.formats.pytorch.graph_passes import control_flow as pytorch_bodies
from graphport.formats.pytorch.graph_passes import functionalization as pytorch_writes
from graphport.formats.pytorch.graph_passes import states as pytorch_states
from graphport.formats.pytorch.graph_passes import strides as pytorch_strides
from graphport.formats.pytorch.graph_passes import vmap as pytorch_vmap
from graphport.formats.pytorch.graph_passes.captured_values import close_bodies
from graphport.formats.pytorch.graph_passes.narrow_types import widen_narrow_types
from graphport.formats.pytorch.parameters import mark_initializers
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.ir.graph import walk
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.core.diagnostics import Diagnostic
    from graphport.ir.graph import Graph


def before(graph: Graph) -> list[Diagnostic]:
    """Convert constructs that span several operators; return findings about unsupported ones."""
    registry.load(DIALECT)
    findings: list[Diagnostic] = []
    for inner in list(walk(graph)):
        pytorch_vmap.map_regions(inner)
    graphs = list(walk(graph))
    for inner in reversed(graphs):
        pytorch_bodies.inline_regions(inner)
        findings += pytorch_strides.rebase(inner)
        findings += pytorch_writes.functionalize(inner)
        pytorch_bodies.convert_control_flow(inner)
    findings += pytorch_states.settle(graph)
    for inner in walk(graph):
        _forget(inner)
    findings += pytorch_complex.pair(graph)
    return findings


def _forget(graph: Graph) -> None:
    """Remove unused results, and operators without used results, for example size checks."""
    for node in reversed(graph):
        if node.dialect != DIALECT:
            continue
        if not any(value.uses for value in node.results):
            graph.remove(node)
            continue
        for place, value in enumerate(node.outputs):
            if value is not None and not value.uses:
                node.drop_output(place)


def before_export(graph: Graph) -> None:
    """Mark the model's constants (those that export rules add are not trainable), and widen types that torch lacks."""
    mark_initializers(graph)
    widen_narrow_types(graph)


def after_export(graph: Graph) -> None:
    """Convert captured values of branch and loop bodies to operands."""
    close_bodies(graph)
