"""Batched requests: each case continues with its own result, and a failing case does not affect the others."""

import pytest

from tests.at_once import ask, at_once, together


def answered(asked):
    """Return an oracle that records its batches."""

    def answers(questions):
        asked.append(list(questions))
        return [ValueError(f"not {each}") if each < 0 else 10 * each for each in questions]

    return answers


def test_at_once_batches_the_queries_of_all_cases(tmp_path):
    asked, seen = [], []
    judge = answered(asked)

    @at_once("a", [1, 2])
    @at_once("b, c", [(3, 0), pytest.param(4, 1, id="four")])
    def test(tmp_path, a, b, c):
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()
        seen.append((ask(a, judge), ask(a + b, judge) if c else 0))

    test(tmp_path=tmp_path)
    assert asked == [[1, 1, 2, 2], [5, 6]]
    assert sorted(seen) == [(10, 0), (10, 50), (20, 0), (20, 60)]


def test_a_failure_is_named_and_does_not_stop_the_others():
    seen = []

    @at_once("n", [1, -2, 3, 4], ids=str)
    def test(n):
        found = ask(n, answered([]))
        assert n != 4
        seen.append(found)

    with pytest.raises(BaseExceptionGroup, match="2 cases") as caught:
        test()
    assert seen == [10, 30]
    assert [error.__notes__ for error in caught.value.exceptions] == [["of the case -2"], ["of the case 4"]]
    assert [type(error) for error in caught.value.exceptions] == [ValueError, AssertionError]


def test_query_outside_at_once_is_answered_directly():
    asked = []
    assert ask(2, answered(asked)) == 20
    with pytest.raises(ValueError, match="not -1"):
        ask(-1, answered(asked))
    assert asked == [[2], [-1]]


def test_at_once_runs_one_case_at_a_time():
    running, judge = [], answered([])

    def work():
        for number in range(3):
            running.append(number)
            assert len(running) == 1
            running.pop()
            ask(number, judge)

    assert together([work] * 5) == [None] * 5


def test_at_once_rejects_monkeypatch():
    with pytest.raises(TypeError, match="use `every`"):

        @at_once("n", [1])
        def test(monkeypatch, n):
            pass
