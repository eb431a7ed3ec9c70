"""Balance unlike channels before all samples are observed, so that they are observed once."""

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
"""Strength of channel balancing, if it helps."""
MIN_GAIN_DB = 0.3
"""Minimum gain in dB of a graph change."""
UNBALANCED_SNR_DB = 15.0
"""SNR in dB below which channels are balanced even if the preset does not: often they are unbalanced."""
_SOME, _RUN = 3, 8
"""Stride of samples that decide on balancing; samples of a run."""


class Balancer(Protocol):
    """Interface of the session: samples, and candidates that a few samples decide."""

    samples: Samples
    held_back: frozenset[int]
    followed: list[Run]
    statistics: Path | None

    def decide_placement(self, graph: Graph) -> Placement:
        """Return the placement of `graph`."""
        ...

    def observe(self, graph: Graph, statistics: Path | None, runs: Iterable[Run] | None) -> Mapping[str, Statistics]:
        """Return the statistics of values on a part of the samples."""
        ...

    def glance(self, graph: Graph, runs: Iterable[Run]) -> Candidate:
        """Return a candidate calibrated on the samples in `runs` only."""
        ...

    def snr(self, candidate: Candidate) -> float:
        """Return the SNR of a candidate in dB."""
        ...

    def better(self, name: str, old: Candidate, new: Candidate, gain: float = 0.0) -> Candidate:
        """Return the better candidate."""
        ...


def balance_early(session: Balancer, graph: Graph) -> Graph | None:
    """Return `graph` with balanced channels, if weights are unbalanced and a few samples show a gain.

    Returns `None` if they do not, or if statistics are stored for other settings.
    """
    samples = session.samples
    if session.statistics is not None or _SOME * sum(count for _, count in session.followed) > samples.count:
        return None
    if not are_channels_unlike(session.decide_placement(graph).layers.values()):
        return None
    found = session.glance(graph, session.followed)
    if session.snr(found) >= UNBALANCED_SNR_DB:
        return None
    others = frozenset(number for number in range(samples.count) if number % _SOME)
    runs = samples.runs(_RUN, leave_out=session.held_back | others)
    twin = rewrite.copy(graph)
    if not equalize(twin, session.observe(graph, None, runs), STRENGTH):
        return None
    new = session.glance(twin, session.followed)
    return twin if session.better("equalize, few samples", found, new, MIN_GAIN_DB) is new else None
