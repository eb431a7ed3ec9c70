"""Outputs of runners for a test input; all of them compute at the same time."""

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
    """Outputs by position of each runner that computes a test input; the others have a `reason`.

    Raises:
        DiagnosticError: inputs of the user do not fit side `a`.
    """
    found: dict[Runner, list[Any]] = {}
    started: list[Runner] = []
    for runner in runners:
        runner.failure = runner.reason = None
        try:
            runner.start(test_input, case.a)
        except DiagnosticError as error:
            if test_input.kind == "given" and runner.side is case.a:
                raise
            runner.fail(UnansweredError(error.diagnostics[0].message))
        except UnansweredError as error:
            runner.fail(error)
        else:
            started.append(runner)
    # Backends compute in this process: the native runtimes compute meanwhile.
    for runner in sorted(started, key=lambda each: not each.is_own):
        if isinstance(runner, BackendRunner) and runner.budget is not None:
            fastest = min((each.seconds for each in case.runners if each.ran and each is not runner), default=0.0)
            runner.budget = max(runner.budget, _MAX_SLOWDOWN * fastest)
        try:
            with stage(f"{runner.title} computes {runner.side.label} ({test_input.kind})"):
                found[runner] = runner.finish()
        except UnfinishedError as error:
            runner.fail(error)
            case.limit = f"{runner.title} {error}"
        except UnansweredError as error:
            runner.fail(error)
    return found
