from __future__ import annotations

import pytest

from graphport.formats.nnef.container.trampoline import Steps, run


def depth(nested: list) -> Steps[int]:
    deepest = 0
    for each in nested:
        deepest = max(deepest, (yield depth(each)))
    return deepest + 1


def test_results_are_sent_to_the_waiting_caller():
    assert run(depth([[], [[]], [[[]], []]])) == 4


def test_depth_is_not_limited_by_the_stack():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert run(depth(nested)) == 100_001


def test_an_exception_ends_all_of_it_and_closes_what_waits():
    closed = []

    def failing() -> Steps[int]:
        yield from ()
        raise KeyError

    def waiting() -> Steps[int]:
        try:
            return (yield failing())
        finally:
            closed.append(True)

    with pytest.raises(KeyError):
        run(waiting())
    assert closed == [True]
