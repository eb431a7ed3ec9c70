"""Content of an IR file outside the graph: stored as notes on graphs, nodes and values, and written back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.core.storage import MappedFile
    from graphport.formats.openvino.container.xml import Element, Ends
    from graphport.ir.graph import Graph

KEY = "openvino"
"""Note of nodes, inputs and constants: the layer's element. Note of graphs: a `Header`."""
NAMES = "openvino_names"
"""Note of values: all tensor names, unless the value's name is the only one."""
MEAN_VALUES = "openvino_means"
"""Note of inputs: a storage to subtract from the input."""
DECOMPRESSION = "openvino_decompression"
"""Note of nodes that decompress weights: OpenVINO does not fold them."""


@dataclass(frozen=True, eq=False, slots=True)
class Header:
    """Content of a network or body outside its layers.

    `element` is the network without layers and edges; `results` are the layers of its outputs; `edges` are in the order
    of the file; `weights` is the `.bin`, and `constants` the number of layers that refer to it.
    """

    element: Element
    results: tuple[Element, ...]
    edges: tuple[Ends, ...]
    weights: MappedFile | None = None
    constants: int = 0


def result_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of the layers of a graph's outputs."""
    header = graph.notes.get(KEY)
    results = header.results if isinstance(header, Header) else ()
    return tuple(layer.attributes.get("name", "") for layer in results)
