"""Convert a quantized graph to the operators that the target's kernels match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.quantization.avoid_fusions import unfused
from graphport.quantization.encodings import ending, text_of, without_roundings
from graphport.quantization.lookup_tables import block_tables, has_tables
from graphport.quantization.nbits import exact_products, has_two_bits
from graphport.quantization.open_axes import unnamed
from graphport.quantization.qoperator import as_qoperators
from graphport.quantization.recurrent import dynamic_lstms
from graphport.quantization.rotary_embeddings import with_rotations
from graphport.quantization.targets import target as find_target

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.ir.graph import Graph
    from graphport.quantization.settings import Settings


def to_export_form(graph: Graph, settings: Settings, exact: Collection[str] = ()) -> Graph:
    """Return `graph` as written to ONNX for the target of `settings`; for `exact` see `nbits.exact_products`.

    Tools that read qparams from a separate file get a float model. 2-bit products and quantized tables use ONNX
    Runtime's operators. Additions avoid fusion into slower kernels, integer products keep their kernels, and batch axes
    lose their names.
    """
    if find_target(settings.target).encodings:
        return without_roundings(graph)
    is_own = settings.target == "onnxruntime"
    if exact or (is_own and has_two_bits(graph)):
        graph = exact_products(graph, exact)
    if exact:
        graph = with_rotations(graph)
    if is_own and settings.dynamic:
        graph = dynamic_lstms(graph)
    if is_own and has_tables(graph):
        graph = block_tables(graph)
    if is_own:
        graph = unfused(graph)
    if is_own and not settings.weights_only:
        graph = unnamed(graph)
    return as_qoperators(graph) if settings.form == "qoperator" else graph


def sidecar_file(graph: Graph, settings: Settings) -> tuple[str, str] | None:
    """Return extension and text of the separate file, if the target of `settings` reads one."""
    form = find_target(settings.target).encodings
    return (ending(form), text_of(form, graph)) if form else None
