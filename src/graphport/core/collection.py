"""Rests Python's cycle collector while something large grows."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_LARGE = 100_000
"""So many new objects, of some 10,000 nodes, are worth more than what may wait for a collection meanwhile."""


@contextmanager
def paused_collection() -> Generator[None]:
    """Let no collection of cycles begin inside; the collector is left as it was found.

    The nodes of a graph or tree refer to each other and all of them stay: looking for garbage among them takes longer
    than making them (50,000 nodes: 0.6 s instead of 1.4 s).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # Both together declare everything old, so that not even the first collection looks through it. They forget
            # how much was made since the last one, too: somebody who reads one small model after another would never
            # see what became garbage collected.
            if gc.get_count()[0] > _LARGE and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
