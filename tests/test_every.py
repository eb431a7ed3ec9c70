"""Cases within a test: all run, and failing ones are reported by name."""

import inspect

import pytest

from tests.every import MOST_TOLD, every


def test_every_runs_each_case_in_a_new_folder(tmp_path, monkeypatch):
    seen = []

    @every("a, b", [(1, 2), pytest.param(3, 4, id="named")])
    @every("c", "xy", ids=str)
    def test(tmp_path, monkeypatch, a, b, c):
        seen.append((a, b, c))
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()

    assert list(inspect.signature(test).parameters) == ["tmp_path", "monkeypatch"]
    test(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert seen == [(1, 2, "x"), (1, 2, "y"), (3, 4, "x"), (3, 4, "y")]


def test_a_failure_is_named_and_does_not_stop_the_others():
    seen = []

    @every("n", range(6), ids=str)
    def test(n):
        seen.append(n)
        assert n not in (2, 4)

    with pytest.raises(BaseExceptionGroup, match="2 cases") as caught:
        test()
    assert seen == list(range(6))
    assert [error.__notes__ for error in caught.value.exceptions] == [["of the case 2"], ["of the case 4"]]


def test_after_some_failures_it_ends():
    seen = []

    @every("n", range(9))
    def test(n):
        seen.append(n)
        pytest.fail("no")

    with pytest.raises(BaseExceptionGroup):
        test()
    assert len(seen) == MOST_TOLD


def test_every_skips_only_if_all_cases_skip():
    @every("n", range(3))
    def test(n, least):
        if n < least:
            pytest.skip("no")

    test(least=2)
    with pytest.raises(pytest.skip.Exception):
        test(least=3)
