"""Compute the outputs of runners for a test input, in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import DiagnosticError
from graphport.core.progress import stage
from graphport.proof.process import UnansweredError, UnfinishedError
from graphport.proof.runners import BackendRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.proof.case import Case
    from graphport.proof.runners import Runner
    from graphport.proof.test_inputs import TestInput

_MAX_SLOWDOWN = 10.0
"""Runs of the fastest runtime that the reference may take."""


def compute_outputs(case: Case, runners: Sequence[Runner], test_input: TestInput) -> dict[Runner, list[Any]]:
    """Return the outputs of each runner that computes a test input, by position; other runners get a `reason`.

    Raises:
        DiagnosticError: inputs of the user do not fit side `a`.
    """
    if not case.one_at_a_time:
        return _compute(case, runners, test_input)
    found: dict[Runner, list[Any]] = {}
    for runner in runners:
        if (runner, id(test_input)) not in case.computed:
            _compute_batch(case, runner, test_input)
        outputs = case.computed.pop((runner, id(test_input)), None)
        if outputs is not None:
            runner.failure = runner.reason = None
            found[runner] = outputs
    return found


def _compute_batch(case: Case, runner: Runner, test_input: TestInput) -> None:
    """Load a runner, release others, and compute a test input and the next ones of the batch."""
    if runner.is_native and not runner.has_process:
        release_others(case, runner)
        try:
            runner.load()
        except UnansweredError as error:
            runner.fail(error)
            return
    rest = case.batch[case.batch.index(test_input) :] if test_input in case.batch else [test_input]
    # The first is the last, so that the runner's reason is that of its run.
    for each in reversed(rest):
        outputs = _compute(case, [runner], each).get(runner)
        if outputs is not None:
            case.computed[runner, id(each)] = outputs


def release_others(case: Case, runner: Runner) -> None:
    """Make all other runtimes release their files."""
    for other in case.runners:
        if other is not runner and other.is_native:
            other.close()


def _compute(case: Case, runners: Sequence[Runner], test_input: TestInput) -> dict[Runner, list[Any]]:
    found: dict[Runner, list[Any]] = {}
    started: list[Runner] = []
    for runner in runners:
        runner.failure = runner.reason = None
        try:
            runner.start_run(test_input, case.a)
        except DiagnosticError as error:
            if test_input.kind == "given" and runner.side is case.a:
                raise
            runner.fail(UnansweredError(error.diagnostics[0].message))
        except UnansweredError as error:
            runner.fail(error)
        else:
            started.append(runner)
    # Backends compute in this process: the native runtimes compute meanwhile.
    for runner in sorted(started, key=lambda each: not each.is_native):
        if isinstance(runner, BackendRunner) and runner.budget is not None:
            fastest = min((each.seconds for each in case.runners if each.ran and each is not runner), default=0.0)
            runner.budget = max(runner.budget, _MAX_SLOWDOWN * fastest)
        try:
            with stage(f"{runner.title} computes {runner.side.label} ({test_input.kind})"):
                found[runner] = runner.finish()
        except UnfinishedError as error:
            runner.fail(error)
            if not isinstance(runner, BackendRunner) or runner.budget is None:  # the proof needs it
                case.limit = f"{runner.title} {error}"
        except UnansweredError as error:
            runner.fail(error)
    return found
