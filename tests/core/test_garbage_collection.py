"""Pausing Python's garbage collector, and restoring its state."""

from __future__ import annotations

import gc

import pytest

from graphport.core.garbage_collection import paused_collection


@pytest.fixture(autouse=True)
def _enabled():
    gc.enable()
    yield
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _thawed():
    """Unfreeze all objects for a test, and freeze them again after it."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_paused_collection_disables_gc():
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_disabled_settings_stay_disabled():
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()


def test_an_error_leaves_it_on():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), paused_collection():
        fail()
    assert gc.isenabled()


def test_paused_collection_keeps_frozen_objects():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with paused_collection():
            pass
        # Objects that another thread frees are not frozen; unfreezing applies to all objects.
        assert gc.get_freeze_count() > frozen // 2
    finally:
        gc.unfreeze()


def test_cycles_of_short_paused_sections_are_collected():
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # a verb that ran before in this process may have set others
    try:
        gc.collect()
        before = gc.get_stats()[1]["collections"]
        for _ in range(300):
            with paused_collection():
                rings: list[list[object]] = [[] for _ in range(2000)]
                for ring in rings:
                    ring.append(ring)
        assert gc.get_stats()[1]["collections"] > before
    finally:
        gc.set_threshold(*thresholds)


def test_many_new_objects_become_the_oldest_generation():
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        gc.collect()
        for count, is_old in ((1000, False), (120_000, True)):
            gc.unfreeze()
            gc.collect()
            with paused_collection():
                rings: list[list[object]] = [[] for _ in range(count)]
                assert gc.get_count()[0] >= count
            assert any(each is rings for each in gc.get_objects(2)) is is_old, count
            assert gc.get_freeze_count() == 0
            assert len(rings) == count
            del rings
    finally:
        gc.set_threshold(*thresholds)
