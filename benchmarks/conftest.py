"""Figures that benchmarks compare with a goal, printed at the end of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest


class Figure(NamedTuple):
    """A measured value and its goal."""

    name: str
    value: float
    goal: str


_FIGURES = pytest.StashKey[list[Figure]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, float, str], None]:
    """Return a function that records a figure with its goal."""

    def note(name: str, value: float, goal: str) -> None:
        request.config.stash[_FIGURES].append(Figure(name, value, goal))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash[_FIGURES]
    if not figures:
        return
    terminalreporter.section("figures and goals")
    width = max(len(found.name) for found in figures)
    for found in figures:
        terminalreporter.write_line(f"{found.name:<{width}}  {found.value:8.2f}  goal: {found.goal}")
