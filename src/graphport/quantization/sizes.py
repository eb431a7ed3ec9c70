"""Sizes of values in a run: open sizes are those of the samples."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.quantization.layerwise import bytes_of, bytes_per_sample
from graphport.quantization.samples import gather

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.quantization.samples import Array, Samples

_MOST, _ROOM = 16, 1 << 25
"""Number of samples that are run at once, and maximum bytes of their values; convolutions need nine times that."""


def bound(graph: Graph, samples: Samples) -> Graph:
    """Return `graph` with the sizes of the first sample; `graph` if only batch axes are open."""
    free = [dim for value in graph.inputs for dim in _dims(value.fact)[1:] if isinstance(dim, Symbolic)]
    if not free:
        return graph
    first = samples.run([next(iter(samples.iterate()))])
    twin = rewrite.copy(graph)
    with suppress(DiagnosticError):
        bind_inputs(twin, {name: array.shape for name, array in first.items()})
        Inference().graph(twin)
    return twin


def first_run(graph: Graph, data: object, most: int = _MOST) -> dict[str, Array]:
    """Return the inputs of one run of at most `most` samples: they show more noise than random inputs.

    Raises:
        DiagnosticError: as `gather` and `Samples.runs` do.
    """
    samples = gather(graph, data)
    return next(samples.runs(max(min(most, _ROOM // bytes_per_sample(bound(graph, samples))), 1)))[0]


def bytes_by_name(graph: Graph) -> dict[str, int]:
    """Estimate the bytes of each value of a graph, by name."""
    return {value.name: bytes_of(value) for value in graph.values()}


def _dims(fact: object) -> tuple[object, ...]:
    return fact.shape or () if isinstance(fact, TensorFact) else ()
