"""Stages of long work, and their listeners."""

from __future__ import annotations

import pytest

from graphport.core.progress import Stage, register_listener, stage


class Notes:
    def __init__(self):
        self.told = []

    def begin(self, stage):
        self.told.append(("begin", stage.name, stage.total, stage.unit, stage.done))

    def end(self, stage):
        self.told.append(("end", stage.name, stage.total, stage.unit, stage.done))


def test_listener_receives_only_stages_inside_its_context():
    notes, others = Notes(), Notes()
    with register_listener(notes), stage("read", 10, "nodes") as outer:
        outer.done = 4
        with stage("weights"):
            pass
        with register_listener(None), stage("unheard"):
            pass
        with register_listener(others), stage("elsewhere"):
            pass
    with stage("afterwards") as last:
        last.done = 1
    assert notes.told == [
        ("begin", "read", 10, "nodes", 0),
        ("begin", "weights", 0, "", 0),
        ("end", "weights", 0, "", 0),
        ("end", "read", 10, "nodes", 4),
    ]
    assert [each[:2] for each in others.told] == [("begin", "elsewhere"), ("end", "elsewhere")]


def test_a_stage_that_fails_ends():
    notes = Notes()
    with pytest.raises(KeyError), register_listener(notes), stage("read"):
        raise KeyError
    assert [each[0] for each in notes.told] == ["begin", "end"]
    with stage("unheard"):
        pass
    assert len(notes.told) == 2


def test_go_on_restarts_the_clock_for_a_new_stage():
    found = Stage("read", 10)
    began = found.began = found.began - 5
    found.go_on("read", 3, 10)
    assert (found.name, found.done, found.total, found.began) == ("read", 3, 10, began)
    found.go_on("read", 3, 12)
    assert (found.total, found.began) == (12, began)
    found.go_on("read", 1, 12)
    assert found.began > began
    found.began = began
    found.go_on("write", 2, 12)
    assert (found.name, found.began > began) == ("write", True)


def test_stage_measure_is_called_for_the_progress():
    with stage("write", 8, "bytes", measure=lambda: 5) as found:
        assert found.measure is not None
        assert found.measure() == 5
