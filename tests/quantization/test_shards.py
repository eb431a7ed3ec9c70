"""How samples are shared out."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.quantization import session
from graphport.quantization.shards import parted
from tests.quantization import nets


@pytest.mark.parametrize("most", [1, 3, 8, 20])
def test_parts_of_runs_are_the_same_samples(most):
    x = np.arange(22, dtype=np.float32).reshape(11, 2)
    runs = [({"x": x[:8], "y": -x[:8]}, 8), ({"x": x[8:], "y": -x[8:]}, 3)]
    parts = list(parted(runs, most))
    assert all(count == len(inputs["x"]) == len(inputs["y"]) <= most for inputs, count in parts)
    assert np.array_equal(np.concatenate([inputs["x"] for inputs, _ in parts]), x)
    assert np.array_equal(np.concatenate([inputs["y"] for inputs, _ in parts]), -x)


def test_values_without_batch_axis_are_not_split():
    runs = [({"x": np.zeros((8, 2), np.float32), "scale": np.zeros((), np.float32)}, 8), ({"x": np.zeros((2, 4))}, 4)]
    assert [count for _, count in parted(runs, 3)] == [8, 4]


def test_sampled_observation_holds_no_more_values_than_a_full_one(monkeypatch):
    """Samples that are followed come in runs for which fewer values are held at once."""
    counts, sizes = [], []
    here, fitting = session.here, session.fitting_batch

    def seen(plan, shards, heard):
        shards = [[*shard] for shard in shards]
        counts.extend(count for shard in shards for _, count in shard)
        return here(plan, iter(map(iter, shards)), heard)

    def sized(*given):
        sizes.append(fitting(*given))
        return sizes[-1]

    monkeypatch.setattr(session, "here", seen)
    monkeypatch.setattr(session, "fitting_batch", sized)
    found = nets.residual()
    gp.quantize(found, nets.samples(found, 256), memory=1 << 17)
    assert counts
    assert max(counts) <= min(sizes)
