"""Key-value caches: the tokens so far are an input, and their concatenation with the new ones an output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from graphport.core.budget import fits_in_memory
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.tract.node_builder import as_list
from graphport.formats.nnef.rules.tract.types import datum
from graphport.ir import states
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.formats.nnef.container.syntax import Call
    from graphport.formats.nnef.container.tract.node_builder import GraphBuilder
    from graphport.ir.graph import Graph


class Cache(NamedTuple):
    """Input and output of a cache, and its name in the document."""

    state: Value
    result: Value
    name: str


def append_to_cache(at: GraphBuilder, given: Mapping[str, Any], node: Call, name: str, caches: list[Cache]) -> Value:
    """Concatenate a cache, which is empty at first, and the new tensor; record it in `caches`.

    Raises:
        DiagnosticError: NNEF0904, it is in a loop, or its shape has no such axis.
    """
    if not isinstance(given["axis"], int):
        raise at.fault("NNEF0904", f"the cache '{given['name']}' has axis {given['axis']!r}, expected an integer", node)
    axis, x = given["axis"], at.tensor(given["input"])
    sizes: list[Any] = list(as_list(given["past_sequence_shape"]))
    wrong = [dim for dim in sizes if isinstance(dim, bool) or not isinstance(dim, int | Symbolic)]
    past = cast("list[Dim]", sizes)
    if at.graph is not at.home or not 0 <= axis < len(past) or wrong:
        where = f"has the dimension {wrong[0]!r}, expected an integer" if wrong else f"has no axis {axis}"
        where = where if at.graph is at.home else "is inside of a loop"
        raise at.fault("NNEF0904", f"the cache '{given['name']}' {where}", node)
    dtype = datum(str(given["datum_type"])) or DType.FLOAT32
    state = Value(at.home.fresh(str(given["name"])), TensorFact(dtype, tuple(past)), origin=at.span(node))
    others = [dim for place, dim in enumerate(past) if place != axis]
    if any(isinstance(dim, int) and dim < 0 for dim in others):
        raise at.fault("NNEF0904", f"the cache '{given['name']}' has a negative extent", node)
    if all(isinstance(dim, int) for dim in others):
        shape = cast("list[int]", [0 if place == axis else dim for place, dim in enumerate(past)])
        if not fits_in_memory(shape):
            raise at.fault("NNEF0904", f"the cache '{given['name']}' has an extent beyond the addressable memory", node)
        state.storage = storage_of(np.zeros(shape, dtype.numpy), dtype)
    at.home.adopt_input(state)
    (result,) = at.node("concat", [state, x], 1, names=[name], axis=axis)
    caches.append(Cache(state, result, str(given["name"])))
    return result


def return_states(graph: Graph, caches: Sequence[Cache]) -> None:
    """Return the updated caches as outputs, and note the corresponding inputs."""
    for cache in caches:
        is_returned = cache.result.is_output
        if not is_returned:
            graph.add_output(cache.result)
        states.mark(cache.state, states.State(cache.result.name, cache.name, is_returned))
