"""Quantize large models layer by layer: neither all weights nor all codes are in memory at once.

Samples are followed through the graph with float and quantized weights (`layerwise`), one segment at a time. Each layer
is quantized when it is reached, and its codes are written to a temporary file; the noise is measured on held-out
samples. The runtime's results of the whole model are not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.spill import UnnamedFile
from graphport.ir import rewrite
from graphport.quantization.candidate import Candidate
from graphport.quantization.engine import Noise
from graphport.quantization.insert_qdq import Weight
from graphport.quantization.lookup_tables import asked_tables
from graphport.quantization.output_parts import find_output_parts
from graphport.quantization.report import Step
from graphport.quantization.require_layers import refuse_empty
from graphport.quantization.unscale import unscale

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Graph, Node
    from graphport.quantization.session import QuantizationSession

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(slots=True, eq=False)
class SpilledWeights(MutableMapping["Node", Weight]):
    """Quantized weights of `nodes` in a file; missing ones are quantized on access."""

    nodes: tuple[Node, ...]
    rounded: Callable[[Node], Weight]
    _file: UnnamedFile = field(default_factory=UnnamedFile)
    _known: dict[Node, Weight] = field(default_factory=dict["Node", Weight])

    def __getitem__(self, node: Node) -> Weight:
        if node not in self._known:
            if node not in self.nodes:
                raise KeyError(node)
            self[node] = self.rounded(node)
        return self._known[node]

    def __setitem__(self, node: Node, weight: Weight) -> None:
        qparams = weight.qparams
        before = self._known.get(node)
        if before is None or before.qparams is not qparams:
            qparams = replace(qparams, scale=self._spilled(qparams.scale), zero_point=self._spilled(qparams.zero_point))
        self._known[node] = Weight(qparams, self._spilled(weight.codes), weight.bias)

    def __delitem__(self, node: Node) -> None:
        del self._known[node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def _spilled(self, array: Array) -> Array:
        whole = np.ascontiguousarray(array).reshape(array.shape)
        start = self._file.add([whole.reshape(-1).view(np.uint8).data])
        return np.frombuffer(self._file.view(start, whole.nbytes), whole.dtype).reshape(whole.shape)


def streamed(session: QuantizationSession, graph: Graph) -> Candidate:
    """Return `graph` with quantized weights, and its noise on held-out samples; nothing else is tried.

    Outstanding channels that consumers compensate are always rescaled: that is exact.
    """
    settings = session.choices.settings
    twin = rewrite.copy(graph)
    if settings.equalize is not False and session.timed("equalize", unscale, twin):
        graph = twin
    placement = session.decide_placement(graph)
    refuse_empty(graph, placement, session.choices.target)
    quantization = session.quantization(placement)
    quantization.weights = SpilledWeights(
        tuple(placement.layers), lambda node: session.weight(node, placement.layers[node], None)
    )
    quantization.tables = asked_tables(session.choices, graph)
    best = Candidate(graph, quantization, {})
    best.noise = session.timed("round", _followed, session, best)
    session.steps.append(Step("round layer by layer", best.noise.snr, is_kept=True))
    return best


def _followed(session: QuantizationSession, best: Candidate) -> Noise:
    """Follow all samples at once; layers are adjusted to those that were not held out."""
    seen = [*session.followed]
    judged = session.judge.runs if session.held_back else []
    runs = [inputs for inputs, _ in (*seen, *judged)]
    follower = session.follower(best, adjusts=True)
    follower.fitting = len(seen)
    real, rounded = follower.run(runs, best.graph.outputs)
    best.follower = follower
    outputs = [value for value in dict.fromkeys(best.graph.outputs) if value in real and value in rounded]
    counts = {index: count for index, (_, count) in enumerate([*seen, *judged]) if index >= len(seen) or not judged}
    expected = [{value.name: real[value][index] for value in outputs} for index in counts]
    noise = Noise(find_output_parts({value.name: value for value in outputs}, expected))
    for (index, count), each in zip(counts.items(), expected, strict=True):
        noise.add(each, {value.name: rounded[value][index] for value in outputs}, count)
    return noise
