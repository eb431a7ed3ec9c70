"""Samples that are observed on several machines."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import graphport as gp
from graphport.quantization import distributed, shards
from graphport.quantization.distributed import files_of, graph_of, observer
from tests.quantization import machines, nets


@pytest.fixture
def two_machines(monkeypatch):
    """Stand in for Ray; a cluster of it is tried in tests/conformance/quantization."""
    made = machines.Objects(cores=2)
    monkeypatch.setattr(distributed, "_ray", lambda: made)
    return made


def test_two_machines_observe_bit_identical_statistics(two_machines, tmp_path):
    machines.observe_as_one_does(tmp_path)
    both = two_machines.made[:2]
    assert [set(each.asked) for each in both] == [{"version", "observe"}] * 2


def test_the_command_line_observes_on_several_machines(two_machines, tmp_path):
    machines.observe_on_the_command_line(tmp_path)
    assert len(two_machines.made) == 2


def test_two_machines_round_layers_bit_identically(two_machines):
    machines.round_as_one_does()
    assert all("round_layer" in each.asked for each in two_machines.made)


def test_a_machine_of_another_version_is_reported(two_machines, monkeypatch):
    found, versions = nets.residual(), iter(["0.1", "0.2", "0.2"])
    monkeypatch.setattr(distributed, "_version", lambda: next(versions))
    with pytest.raises(
        gp.DiagnosticError, match=r"QUANT0012.*graphport versions differ: 0\.1, 0\.2 on the cluster, 0\.2 here"
    ):
        gp.quantize(found, nets.samples(found), distributed="ray")


def test_shards_are_deterministic():
    runs = [({"x": np.full((2, 3), number, np.float32)}, 2) for number in range(shards.MIN_SHARD_SAMPLES + 1)]
    taken = [[inputs["x"][0, 0] for inputs, _ in shard] for shard in shards.sharded(runs)]
    assert [len(shard) for shard in taken] == [shards.MIN_SHARD_SAMPLES // 2, shards.MIN_SHARD_SAMPLES // 2, 1]
    assert [number for shard in taken for number in shard] == list(range(shards.MIN_SHARD_SAMPLES + 1))


def test_shards_of_large_samples_are_small():
    x = np.zeros((1, 3 << 20), np.float32)
    assert [len(list(shard)) for shard in shards.sharded([({"x": x}, 1)] * 5)] == [2, 2, 1]


def test_no_samples_give_empty_statistics():
    found = shards.merged({"x": 1}, iter([]))
    assert found["x"].samples == 0
    assert found["x"].axis == 1


def test_a_model_survives_the_way_to_another_machine():
    found = nets.depthwise()
    again = graph_of(files_of(found.graph))
    x = nets.samples(found, 3)
    assert np.array_equal(gp.run(found, x)["y"], gp.run(gp.Model(again), x)["y"])


def test_unknown_ways_are_reported():
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0011.*'smoke'.*methods: ray"):
        observer("smoke")


def test_without_ray_the_remedy_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0011.*pip install 'ray"):
        gp.quantize(found, nets.samples(found), distributed="ray")


def test_a_cluster_that_is_missing_is_reported(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    found = nets.residual()
    with machines.alone(), pytest.raises(gp.DiagnosticError, match=r"QUANT0012.*no Ray cluster"):
        gp.quantize(found, nets.samples(found), distributed="ray")
