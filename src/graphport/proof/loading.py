"""Which runners represent the sides of a proof: native runtimes where they load the files, else our reading."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from graphport.backends import preferred
from graphport.core.progress import stage
from graphport.proof.compute import release_others
from graphport.proof.faults import known_fault
from graphport.proof.process import UnansweredError, UnfinishedError
from graphport.proof.run import Configuration, Failure
from graphport.proof.runners import BackendRunner, DisagreementError, NativeRunner, Runner
from graphport.runtimes.inputs import open_axes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.proof.case import Case
    from graphport.proof.side import Side


def load_carriers(case: Case) -> str | None:
    """Choose the runner that represents each side. Return why a side has none, if so.

    Native runtimes load both files in parallel, with default settings. A runtime that rejects the source is tried in
    its strict configuration; a side that no native runtime loads is computed by a backend as graphport read it.
    """
    started = [runner for side in (case.a, case.b) if (runner := _start_native(case, side)) is not None]
    for runner in started:
        if load(case, runner):
            case.carriers[runner.side.letter] = runner
    if case.is_refuted or case.limit is not None:
        return case.limit
    for side in (case.a, case.b):
        if side.letter not in case.carriers and not _use_substitute(case, side):
            reasons = "; ".join(f"{r.title} {r.reason}" for r in case.runners if r.side is side and r.reason)
            return f"nothing computes {side.label}" + (f" ({reasons})" if reasons else "")
    return case.limit


def _start_native(case: Case, side: Side) -> NativeRunner | None:
    if side.runtime is None or side.path is None:
        return None
    runner = NativeRunner(side, side.runtime)
    case.runners.append(runner)
    fault = known_fault(side.runtime.name, side.graph)
    if not side.runtime.is_installed:
        runner.failure, runner.reason = Failure.MISSING, f"the package {side.runtime.package} is not installed"
    elif fault is not None:
        runner.failure, runner.reason = Failure.KNOWN_FAULT, f"is known to compute incorrectly: {fault.what}"
    else:
        if not case.one_at_a_time:
            runner.start_loading()
        return runner
    case.record(runner)
    return None


def load(case: Case, runner: Runner) -> bool:
    """Load a side; a failure is recorded in the matrix."""
    if case.one_at_a_time and runner.is_native:
        release_others(case, runner)
    try:
        with stage(f"{runner.title} loads {runner.side.label}"):
            runner.load()
    except DisagreementError as error:
        case.interface.append(f"{runner.sentence} {error}")
        return False
    except UnansweredError as error:
        runner.fail(error)
        if isinstance(error, UnfinishedError):
            case.limit = f"{runner.title} {error}"
        case.record(runner)
        return False
    return True


def _use_substitute(case: Case, side: Side) -> bool:
    """Select the strict configuration or a backend for a side that its runtime rejects with default settings."""
    failed = next((runner for runner in case.runners if runner.side is side), None)
    runtime = side.runtime
    if failed is not None and failed.failure is Failure.REJECTED and runtime is not None and runtime.has_strict:
        runner = NativeRunner(side, runtime, Configuration.STRICT)
        case.runners.append(runner)
        if load(case, runner):
            case.carriers[side.letter] = runner
            return True
    names = ["reference", *(name for name in preferred(side.graph) if name != "reference")]
    if side.path is None:
        names = [*names[1:], "reference"]
    for name in names:
        backend = BackendRunner(side, name)
        case.runners.append(backend)
        if load(case, backend):
            case.carriers[side.letter] = backend
            return True
    return False


def strict_pair(case: Case) -> tuple[Runner, Runner]:
    """Return for each side the runner of the strict configuration if the runtime has one, else its carrier."""
    return _strict(case, "a"), _strict(case, "b")


def strict_pairs(case: Case) -> Iterator[tuple[Runner, Runner]]:
    """Yield pairs other than the carriers: the less exact runtime in its strict configuration, then both.

    If the outputs of the first pair agree tightly, the strict configuration of the more exact runtime is not needed.
    """
    pair = case.carriers["a"], case.carriers["b"]
    known = {pair}
    precise = [_documented_precision(runner) for runner in pair]
    if precise[0] != precise[1]:
        less = min((0, 1), key=precise.__getitem__)
        half = (_strict(case, "a"), pair[1]) if less == 0 else (pair[0], _strict(case, "b"))
        if half not in known:
            known.add(half)
            yield half
    both = strict_pair(case)
    if both not in known:
        yield both


def _documented_precision(runner: Runner) -> float:
    """Return the SNR in dB that the configuration of a runner keeps; infinity if it is exact."""
    runtime = runner.side.runtime
    if runner.configuration is not Configuration.DEFAULT or runtime is None or runtime.default_snr is None:
        return inf
    return runtime.default_snr


def size_checker(case: Case) -> Runner:
    """Return the runner of side `a` that decides whether the model supports sizes of open dims.

    Default optimizations may remove an out-of-bounds lookup. If lengths of integer inputs (masks, positions) may depend
    on other lengths, the strict configuration is used.
    """
    _, lengths = open_axes(case.a.graph)
    has_integers = any(value.dtype is not None and value.dtype.is_integer for value in case.a.graph.inputs)
    return _strict(case, "a") if len(lengths) > 1 and has_integers else case.carriers["a"]


def _strict(case: Case, letter: str) -> Runner:
    carrier = case.carriers[letter]
    runtime = carrier.side.runtime
    if carrier.configuration is not Configuration.DEFAULT or runtime is None or not runtime.has_strict:
        return carrier
    own = [each for each in case.runners if each.side is carrier.side]
    known = next((each for each in own if each.configuration is Configuration.STRICT), None)
    if known is None:
        known = NativeRunner(carrier.side, runtime, Configuration.STRICT)
        case.runners.append(known)
        load(case, known)
    return known if known.is_loaded else carrier
