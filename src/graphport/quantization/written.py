"""A quantized graph in the words in which its target has the kernels for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.quantization.encodings import ending, text_of, without_roundings
from graphport.quantization.nbits import exact_products, has_two_bits
from graphport.quantization.open_axes import unnamed
from graphport.quantization.qoperator import as_qoperators
from graphport.quantization.rotations import with_rotations
from graphport.quantization.tables import block_tables, has_tables
from graphport.quantization.targets import target as find_target
from graphport.quantization.unfused import unfused

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.ir.graph import Graph
    from graphport.quantization.settings import Settings


def as_written(graph: Graph, settings: Settings, exact: Collection[str] = ()) -> Graph:
    """`graph` as it is written to ONNX for the target of `settings`; `exact` see `nbits.exact_products`.

    Tools that are told grids beside the model get a real one. Products with two bits, and rows of tables that have
    codes, are said in ONNX Runtime's own operators. Additions are said so that they are not taken into slower kernels,
    products of integers so that they stay on these, and axes of samples lose their names.
    """
    if find_target(settings.target).encodings:
        return without_roundings(graph)
    is_own = settings.target == "onnxruntime"
    if exact or (is_own and has_two_bits(graph)):
        graph = exact_products(graph, exact)
    if exact:
        graph = with_rotations(graph)
    if is_own and has_tables(graph):
        graph = block_tables(graph)
    if is_own:
        graph = unfused(graph)
    if is_own and not settings.weights_only:
        graph = unnamed(graph)
    return as_qoperators(graph) if settings.form == "qoperator" else graph


def beside(graph: Graph, settings: Settings) -> tuple[str, str] | None:
    """What the name of the file beside ends in, and its text, where the target of `settings` reads one."""
    form = find_target(settings.target).encodings
    return (ending(form), text_of(form, graph)) if form else None
