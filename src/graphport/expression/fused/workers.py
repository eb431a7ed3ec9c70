"""Worker threads for long computations; callers never wait for an idle worker."""

from __future__ import annotations

import os
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_parallel(task: Callable[[int], None], parts: int, threads: int) -> None:
    """Call `task` with 0 to `parts - 1`, in this thread and in up to `threads - 1` others.

    Every thread takes the next part when it has finished one, so a busy processor delays nothing but its own part;
    others that have not begun when the parts run out never begin.
    """
    following = count()

    def work() -> None:
        while (part := next(following)) < parts:
            task(part)

    helpers = [_pool().submit(work) for _ in range(min(threads, parts) - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()


@cache
def _pool() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max_workers=max(1, processors() - 1), thread_name_prefix="graphport-kernel")
