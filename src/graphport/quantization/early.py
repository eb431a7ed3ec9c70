"""Channels that are far apart are balanced before all samples are observed, so that these are observed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graphport.ir import rewrite
from graphport.quantization.equalize import are_channels_unlike, equalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from graphport.ir.graph import Graph
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.observe import Statistics
    from graphport.quantization.placement import Placement
    from graphport.quantization.samples import Run, Samples

STRENGTH = 0.3
"""How strongly channels are balanced, as far as it helps."""
LEAST_GAIN = 0.3
"""dB that a change of the graph must gain to be worth it."""
RUINED = 15.0
"""dB below which channels are balanced even where the preset does not: they are often far apart."""
_SOME, _RUN = 3, 8
"""One sample in so many decides how channels are balanced; samples of a run."""


class Balancer(Protocol):
    """What is asked of a quantization: its samples, and candidates that few of them decide."""

    samples: Samples
    held_back: frozenset[int]
    followed: list[Run]
    statistics: Path | None

    def decide_placement(self, graph: Graph) -> Placement:
        """Where `graph` is quantized."""
        ...

    def observe(self, graph: Graph, statistics: Path | None, runs: Iterable[Run] | None) -> Mapping[str, Statistics]:
        """What is seen of values on a part of the samples."""
        ...

    def glance(self, graph: Graph, runs: Iterable[Run]) -> Candidate:
        """A candidate that is calibrated on a part of the samples."""
        ...

    def snr(self, candidate: Candidate) -> float:
        """Its signal to noise in dB."""
        ...

    def better(self, name: str, old: Candidate, new: Candidate, gain: float = 0.0) -> Candidate:
        """The better one of two."""
        ...


def balanced_early(session: Balancer, graph: Graph) -> Graph | None:
    """`graph` with channels balanced, where weights show that they are unlike, and a few samples that it helps.

    None where they do not, or where what is seen of the samples is kept for other settings.
    """
    samples = session.samples
    if session.statistics is not None or _SOME * sum(count for _, count in session.followed) > samples.count:
        return None
    if not are_channels_unlike(session.decide_placement(graph).layers.values()):
        return None
    found = session.glance(graph, session.followed)
    if session.snr(found) >= RUINED:
        return None
    others = frozenset(number for number in range(samples.count) if number % _SOME)
    runs = samples.runs(_RUN, leave_out=session.held_back | others)
    twin = rewrite.copy(graph)
    if not equalize(twin, session.observe(graph, None, runs), STRENGTH):
        return None
    new = session.glance(twin, session.followed)
    return twin if session.better("equalize, few samples", found, new, LEAST_GAIN) is new else None
