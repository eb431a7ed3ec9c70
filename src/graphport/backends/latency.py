"""Measurement of the latency of sessions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.runtimes.worker import trips

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.backends import Session


class Latency(NamedTuple):
    """Wall time of one run in milliseconds over `runs` runs: median, minimum, and the 10th and 90th percentiles."""

    median: float
    least: float
    runs: int
    low: float
    high: float


def latencies(
    sessions: Sequence[Session], inputs: Mapping[str, Any], *, seconds: float = 1.0, least: int = 5, most: int = 10_000
) -> list[Latency]:
    """Measure the time of each of `sessions` on `inputs`, alternating between the sessions.

    Each session runs once before the measurement. Rounds are repeated until `seconds` have passed, at least `least` and
    at most `most` times, so that other load affects all sessions equally. The overhead of runtimes in other processes
    is subtracted.

    Raises:
        DiagnosticError: errors of a session that cannot run.
    """
    return measure_interleaved([lambda made=made: made.run(inputs) for made in sessions], seconds, least, most)


def measure_interleaved(
    tasks: Sequence[Callable[[], object]], seconds: float, least: int = 5, most: int = 10_000
) -> list[Latency]:
    """Measure the time of each of `tasks`, as `latencies` does."""
    for task in tasks:
        task()
    spent: list[list[float]] = [[] for _ in tasks]
    until = time.perf_counter() + seconds
    while tasks and (time.perf_counter() < until or len(spent[0]) < least) and len(spent[0]) < most:
        for task, times in zip(tasks, spent, strict=True):
            with trips() as lost:
                start = time.perf_counter()
                task()
                times.append(1e3 * (time.perf_counter() - start - lost.seconds))
    return [_latency(sorted(times)) for times in spent]


def _latency(times: Sequence[float]) -> Latency:
    count = len(times)
    return Latency(times[count // 2], times[0], count, times[count // 10], times[count * 9 // 10])
