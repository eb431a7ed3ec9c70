"""tract's NNEF says beside its operations how tensors are quantized, and recurrent layers as loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.conversion import quantization_file
from graphport.conversion.settled import settle_inputs
from graphport.core.facts import TensorFact
from graphport.ir import states
from graphport.ir.graph import Node
from graphport.ops.dialects.tract.types import datum_name
from graphport.ops.loops.recurrent import recognize

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Graph


def before(graph: Graph) -> None:
    """Spell quantizations out."""
    quantization_file.expand_quantization(graph)


def before_lifting(graph: Graph) -> None:
    """Let inputs have the extents that operators leave them: tract holds what is written against its own arithmetic."""
    settle_inputs(graph)
    _hide_caches(graph)


def after(graph: Graph) -> None:
    """Let loops that are recurrent layers be these."""
    recognize(graph)


def _hide_caches(graph: Graph) -> None:
    """Let tract keep what a model has seen along an axis: it is no input, and no output unless the file returns it.

    Before  k is an input, n = Concat(k, x) an output, and the next run's k
    After   n = tract_transformers_dyn_kv_cache(x)
    """
    for state, result, kept in states.kept(graph):
        node = result.producer
        past, dtype = state.fact, state.fact.dtype if isinstance(state.fact, TensorFact) else None
        if node is None or node.op != "Concat" or node.operands[0] is not state or len(node.operands) != 2:
            continue
        x, name = node.operands[1], None if dtype is None else datum_name(dtype)
        is_empty = state.storage is None or state.storage.count == 0
        if len(state.uses) != 1 or name is None or not is_empty or not isinstance(past, TensorFact):
            continue
        own = x.fact.shape if isinstance(x.fact, TensorFact) else None
        if past.shape is None or own is None:
            continue
        given = {"axis": int(cast("int", node.attributes["axis"])) % len(own), "datum_type": name}
        shapes = {"past_sequence_shape": past.shape, "input_sequence_shape": own}
        attributes = cast("dict[str, Attribute]", {"name": kept.variable, **given, **shapes})
        cache = Node("tract_transformers_dyn_kv_cache", [x], attributes=attributes, dialect="tract", origin=node.origin)
        graph.insert_before(node, cache)
        cache.take_outputs(node)
        graph.remove(node)
        graph.remove_input(state)
        if not kept.is_returned:
            graph.set_outputs([value for value in graph.outputs if value is not result])
