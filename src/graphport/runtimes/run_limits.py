"""Time and memory limits of automatic runs: proofs, `cast`, `quantize`, `edit`, latency.

A command enters `limited`; every session that runs inside it stops at the limit and raises RUN0013. `graphport.run`
has no limit, because its user requested the run.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from graphport.core import budget
from graphport.core.child_process import POLL_SECONDS, resident_bytes
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.ir.graph import Graph
from graphport.runtimes import memory, work
from graphport.runtimes.inputs import open_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

P = ParamSpec("P")
T = TypeVar("T")

MAX_SECONDS = 30
"""Seconds of one run of a small file."""

_BYTES_PER_SECOND = 1 << 21
"""Bytes of the file for which a run has one more second."""

_MACS_PER_SECOND = 1 << 35
_INTERPRETED_MACS_PER_SECOND = 1 << 29
"""Multiply-accumulates of runtimes on many cores, and of the reference interpreter: runs that are estimated to take
longer than their limit are not begun, since no run is stopped inside a node."""

_RUNS = 8
"""The total time limit of a command as a number of single runs."""


class RunLimitError(DiagnosticError):
    """A run was stopped at its limit. The diagnostic is RUN0013."""

    def __init__(self, runtime: str, reason: str) -> None:
        message = f"{runtime} reached a limit: the run {reason}"
        super().__init__(Diagnostic("RUN0013", message, None, "raise the limit, or skip the run with --no-verify"))
        self.reason = reason


@dataclass(slots=True)
class RunLimits:
    """Limits of the runs inside one `limited` block."""

    seconds: float
    """Of one run."""
    nbytes: int
    """Memory limit in bytes in addition to the process before the run; 0 for no limit."""
    until: float
    """End of all runs, by `time.monotonic`."""
    size: int | None = None
    """Bytes of the model's files; `None` for a model that was made in memory."""
    reason: str | None = field(default=None, init=False)
    """Why a run was stopped. No further run is begun then: a verb that tries many would take many times the limit."""
    _watch: _Watch | None = field(default=None, init=False)

    @property
    def remaining_seconds(self) -> float:
        """Seconds that the next run may take; 0 if the total is spent."""
        return 0.0 if self.reason is not None else max(min(self.seconds, self.until - time.monotonic()), 0.0)

    def check(self, runtime: str) -> None:
        """Refuse to start a run after another run of this block was stopped.

        Raises:
            RunLimitError: the reason of that one.
        """
        if self.reason is not None:
            raise RunLimitError(runtime, self.reason)

    def exceeded(self, runtime: str, reason: str) -> RunLimitError:
        """Return the error for a run that was stopped for `reason`; further runs of the block are refused."""
        self.reason = self.reason or reason
        return RunLimitError(runtime, reason)

    def check_size(self, graph: Graph, title: str) -> None:
        """Refuse to run a graph whose arrays are larger than its file may demand, or than the free memory.

        Open dims count as 1.

        Raises:
            RunLimitError: with the estimate and the limit.
        """
        self.check(title)
        sizes = _least_sizes(graph)
        reason = memory.excess(graph, sizes, self.size) or memory.shortage(memory.estimate_proof_bytes(graph, sizes))
        if reason is not None:
            raise RunLimitError(title, f"was not started: {reason}")
        self._check_work(title, work.total_macs(graph, graph.extents.evaluate_symbols(sizes)), _MACS_PER_SECOND)

    def check_nodes(self, graph: Graph, title: str) -> None:
        """Refuse a node-by-node run of a graph if one node takes longer than the limit.

        Raises:
            RunLimitError: with the estimate and the limit.
        """
        sizes = graph.extents.evaluate_symbols(_least_sizes(graph))
        self._check_work(title, work.largest_macs(graph, sizes), _INTERPRETED_MACS_PER_SECOND)

    def check_loops(self, graph: Graph, title: str) -> None:
        """Refuse a graph with a loop of many iterations, which a runtime cannot interrupt at the limit.

        Raises:
            RunLimitError: with the reason.
        """
        reason = work.endless_loop(graph)
        if reason is not None:
            raise RunLimitError(title, f"was not started: {reason}, during which it cannot be interrupted")

    def _check_work(self, title: str, macs: int, per_second: int) -> None:
        most = int(self.seconds * per_second)
        if macs > most:
            text = (
                f"{macs:,} multiply-accumulates, the limit is {most:,}; set {budget.LIMITS}=proof.seconds=N to raise it"
            )
            raise RunLimitError(title, f"was not started: it has {text}")

    @contextmanager
    def watching(self, runtime: str, stop: Callable[[], object], process: int | None = None) -> Generator[None]:
        """Call `stop`, which ends the run inside the block from another thread, at the limit.

        The memory that is watched is that of `process`, by default this one.

        Raises:
            RunLimitError: `stop` was called, and the run ended with an exception.
        """
        self.check(runtime)
        if self._watch is None:
            self._watch = _Watch()
        nbytes = self.nbytes and resident_bytes(process) + self.nbytes
        run = self._watch.begin(_Run(stop, time.monotonic() + self.remaining_seconds, nbytes, process))
        try:
            yield
        except Exception as error:
            if run.reason is not None:
                raise self.exceeded(runtime, run.reason) from error
            raise
        finally:
            self._watch.end()

    def close(self) -> None:
        """End the thread that watches."""
        if self._watch is not None:
            self._watch.close()


@dataclass(slots=True)
class _Run:
    stop: Callable[[], object]
    until: float
    nbytes: int
    process: int | None
    started: float = field(default_factory=time.monotonic)
    reason: str | None = None


class _Watch:
    """A thread that stops the current run of a block at its limit; one thread serves all runs of the block."""

    def __init__(self) -> None:
        self._run: _Run | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._poll, name="graphport run limits", daemon=True).start()

    def begin(self, run: _Run) -> _Run:
        with self._lock:
            self._run = run
        return run

    def end(self) -> None:
        with self._lock:
            self._run = None

    def close(self) -> None:
        self._ended.set()

    def _poll(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with self._lock:
                if self._run is not None:
                    self._check(self._run)

    def _check(self, run: _Run) -> None:
        now = time.monotonic()
        if now >= run.until:
            run.reason = out_of_time(run.until - run.started)
        elif run.nbytes and resident_bytes(run.process) > run.nbytes:
            run.reason = OUT_OF_MEMORY
        else:
            return
        run.stop()


_LIMITS: ContextVar[RunLimits | None] = ContextVar("_LIMITS", default=None)

OUT_OF_MEMORY = f"exceeded the memory limit for a model of its size; set {budget.LIMITS}=proof.memory=N to raise it"


def _least_sizes(graph: Graph) -> dict[str, int]:
    """Return size 1 for every open dim."""
    return dict.fromkeys((name for axes in open_axes(graph) for name in axes), 1)


def out_of_time(seconds: float) -> str:
    """Return the message for a run that was stopped after `seconds`."""
    return f"did not finish within {max(seconds, 0):.0f} s; set {budget.LIMITS}=proof.seconds=N to raise the limit"


def limits_runs(verb: Callable[P, T]) -> Callable[P, T]:
    """Limit the runs of a function of the API by the files of the models that it takes."""

    @wraps(verb)
    def limited_verb(*args: P.args, **kwargs: P.kwargs) -> T:
        given: list[Any] = [*args, *kwargs.values()]
        models = [each for each in given if isinstance(getattr(each, "graph", None), Graph)]
        sizes = [size for each in models if (size := memory.size_of(each.graph, each.path)) is not None]
        with limited(sum(sizes) if sizes else None):
            return verb(*args, **kwargs)

    return limited_verb


def current() -> RunLimits | None:
    """Return the limits of this run; `None` if its user requested it."""
    return _LIMITS.get()


@contextmanager
def limited(size: int | None, *, is_total: bool = False) -> Generator[RunLimits]:
    """Limit the runs inside the block. A block inside another one keeps its limits, unless it adds one of the total.

    Args:
        size: bytes of the model's files; `None` for a model that was made in memory.
        is_total: whether all runs together are limited, too.
    """
    outer = _LIMITS.get()
    if outer is not None and (not is_total or outer.until < float("inf")):
        yield outer
        return
    seconds = budget.limit("proof.seconds", MAX_SECONDS) + (size or 0) / _BYTES_PER_SECOND
    until = time.monotonic() + _RUNS * seconds if is_total else float("inf")
    limits = RunLimits(seconds, memory.allowance(size), until, size)
    token = _LIMITS.set(limits)
    try:
        yield limits
    finally:
        _LIMITS.reset(token)
        limits.close()


@contextmanager
def resumed() -> Generator[None]:
    """Begin runs again inside the block, within the limits around it, after one was stopped or refused as too large.

    For a verb that can do without that run.
    """
    outer = _LIMITS.get()
    if outer is None:
        yield
        return
    limits = RunLimits(outer.seconds, outer.nbytes, outer.until, outer.size)
    token = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(token)
        limits.close()
