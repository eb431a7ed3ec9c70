from __future__ import annotations

import threading
import time

import pytest

from graphport.expression.fused.workers import processors, run_parallel


@pytest.mark.parametrize("parts", [0, 1, 2, 17])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_part_is_done_once(parts, threads):
    done = []
    run_parallel(done.append, parts, threads)
    assert sorted(done) == list(range(parts))


def test_run_parallel_does_not_wait_for_busy_workers():
    """The pool is busy with another call; the caller computes all parts itself."""
    hold = threading.Event()
    blocker = threading.Thread(target=run_parallel, args=(lambda _: hold.wait(10), processors() + 1, processors() + 1))
    blocker.start()
    time.sleep(0.05)
    done = []
    run_parallel(done.append, 5, 4)
    assert sorted(done) == list(range(5))
    hold.set()
    blocker.join()


def test_an_error_in_a_part_is_raised():
    def fail(part):
        if part == 3:
            message = "part 3"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="part 3"):
        run_parallel(fail, 8, 2)
