"""Observe samples shard by shard: equal shards, merged in equal order, wherever each of them is observed.

So the statistics do not depend on the number of machines, bit-exactly: floats are summed within a shard, and then over
shards in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.quantization.engine import observing, session
from graphport.quantization.observe import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from graphport.backends import Session
    from graphport.ir.graph import Graph, Value
    from graphport.quantization.samples import Run

MIN_SHARD_SAMPLES = 64
"""Minimum number of samples of a shard."""
_MAX_SHARD_BYTES = 1 << 24
"""Bytes of inputs after which a shard ends earlier: machines hold whole shards."""

States: TypeAlias = "dict[str, Statistics]"
"""Statistics of values by name."""
Observer: TypeAlias = "Callable[[Plan, Iterable[Iterable[Run]], Callable[[int], None]], Iterator[States]]"
"""Observes shards and yields the statistics of each in order; reports the number of observed samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Observation task: a graph that returns the values, their channel axes, and the threads of a run."""

    graph: Graph
    axes: Mapping[str, int | None]
    threads: int = 0

    @classmethod
    def of(cls, graph: Graph, axes: Mapping[Value, int | None], values: Iterable[Value], threads: int) -> Plan:
        """Return the task for `values` of `graph`."""
        wanted = list(values)
        return cls(observing(graph, wanted), {value.name: axes[value] for value in wanted}, threads)


def parted(runs: Iterable[Run], most: int) -> Iterator[Run]:
    """Split `runs` into parts of at most `most` samples; inputs without a batch axis are not split."""
    for inputs, count in runs:
        if count <= most or not all(x.ndim and len(x) == count for x in inputs.values()):
            yield inputs, count
            continue
        for start in range(0, count, most):
            part = {name: x[start : start + most] for name, x in inputs.items()}
            yield part, min(most, count - start)


def sharded(runs: Iterable[Run]) -> Iterator[Iterator[Run]]:
    """Group `runs` into shards; each is read before the next one begins."""
    given = iter(runs)
    for first in given:
        yield _shard(first, given)


def _shard(first: Run, others: Iterator[Run]) -> Iterator[Run]:
    """Return `first` and as many of the `others` as fit."""
    seen = size = 0
    for inputs, count in chain([first], others):
        yield inputs, count
        seen += count
        size += sum(getattr(x, "nbytes", 0) for x in inputs.values())
        if seen >= MIN_SHARD_SAMPLES or size >= _MAX_SHARD_BYTES:
            return


def observed(
    made: Session, axes: Mapping[str, int | None], runs: Iterable[Run], heard: Callable[[int], None]
) -> States:
    """Observe one shard.

    Raises:
        DiagnosticError: QUANT0015 values contain NaN or infinity.
    """
    states = {name: Statistics(axis) for name, axis in axes.items()}
    for inputs, count in runs:
        found = {**inputs, **made.run(inputs)}
        for name, state in states.items():
            try:
                state.add(found[name], samples=count)
            except FloatingPointError as error:
                message = f"the model computes {error} for {name!r} from the calibration data"
                remedy = "keep the node in float if this is expected; otherwise check the weights for NaN and infinity"
                raise DiagnosticError(Diagnostic("QUANT0015", message, None, remedy)) from error
        heard(count)
    return states


def here(plan: Plan, shards: Iterable[Iterable[Run]], heard: Callable[[int], None]) -> Iterator[States]:
    """Observe one shard after another in this process."""
    made = session(plan.graph, threads=plan.threads)
    for runs in shards:
        yield observed(made, plan.axes, runs, heard)


def merged(axes: Mapping[str, int | None], shards: Iterable[States]) -> States:
    """Merge the statistics of all shards."""
    whole: States | None = None
    for states in shards:
        whole = states if whole is None else {name: whole[name].merge(state) for name, state in states.items()}
    return whole if whole is not None else {name: Statistics(axis) for name, axis in axes.items()}
