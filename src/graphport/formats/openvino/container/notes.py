"""What an IR file says besides the graph: kept on graphs, nodes and values, and written again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.core.storage import MappedFile
    from graphport.formats.openvino.container.xml import Element, Ends
    from graphport.ir.graph import Graph

KEY = "openvino"
"""Of nodes, inputs and constants: the element of the layer. Of graphs: a `Header`."""
NAMES = "openvino_names"
"""Of values: all tensor names, where that is not the value's name alone."""
MEAN_VALUES = "openvino_means"
"""Of inputs: a storage that is subtracted before anything reads them."""
DECOMPRESSION = "openvino_decompression"
"""Of nodes that convert compressed weights back: readers leave them until the model runs."""


@dataclass(frozen=True, eq=False, slots=True)
class Header:
    """What surrounds the layers of a network or body.

    `element` is the network without layers and edges; `results` are the layers of its outputs; `edges` are those of the
    file in their order; `weights` is the `.bin`, and `constants` how many layers look into it.
    """

    element: Element
    results: tuple[Element, ...]
    edges: tuple[Ends, ...]
    weights: MappedFile | None = None
    constants: int = 0


def result_names(graph: Graph) -> tuple[str, ...]:
    """What the file calls the layers of the outputs of a graph."""
    header = graph.notes.get(KEY)
    results = header.results if isinstance(header, Header) else ()
    return tuple(layer.attributes.get("name", "") for layer in results)
