"""A result without elements proves nothing: a runtime that reports its dims otherwise, or rejects it, refutes nothing."""

from __future__ import annotations

import numpy as np

from graphport.proof.alignment import Manner, aligned

MANNER = Manner(has_exact_types=True, has_batches=True, is_edge=False)


def test_empty_results_of_equal_rank_are_equal():
    x, y = aligned(np.zeros((0, 3, 4), np.float32), np.zeros((0, 0, 0), np.float32), MANNER)
    assert x.shape == y.shape == (0, 3, 4)


def test_empty_results_of_other_rank_or_with_elements_differ():
    x, y = aligned(np.zeros((0, 3), np.float32), np.zeros((0,), np.float32), MANNER)
    assert (x.shape, y.shape) == ((0, 3), (0,))
    x, y = aligned(np.zeros((0, 3), np.float32), np.zeros((1, 3), np.float32), MANNER)
    assert (x.shape, y.shape) == ((0, 3), (1, 3))
