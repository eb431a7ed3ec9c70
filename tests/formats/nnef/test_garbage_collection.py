from __future__ import annotations

import gc

import pytest

from graphport.formats.nnef.container.garbage_collection import paused_collection


def test_the_collector_rests_and_is_left_as_it_was():
    assert gc.isenabled()
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_exception_wakes_it_up():
    with pytest.raises(KeyError), paused_collection():
        raise KeyError
    assert gc.isenabled()
