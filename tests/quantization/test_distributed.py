"""Samples that are observed on several machines."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.quantization import layer, parts, shards
from graphport.quantization.distributed import LayersOnRay, files_of, graph_of, observer, on_ray
from tests.quantization import nets
from tests.quantization.test_weights_alone import _tokens, decoder


@pytest.fixture
def alone():
    """Ray finds each cluster of the machine, and tests run side by side."""
    fcntl = pytest.importorskip("fcntl")
    with (Path(gettempdir()) / "graphport-tests-of-ray").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def cluster(monkeypatch, alone):
    """A cluster of two machines, both of which are processes here."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    memory = 80 << 20
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": memory},
    )
    made.add_node(num_cpus=1, object_store_memory=memory)
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    made.shutdown()


def test_two_machines_see_what_one_sees_to_the_last_bit(cluster, tmp_path):
    found = nets.residual()
    # More shards than both machines are given ahead; the last one is smaller.
    data = nets.samples(found, 400)
    assert len(cluster.list_all_nodes()) == 2
    heard = []
    alone = gp.quantize(found, data, preset="fast", statistics=tmp_path / "alone.npz")
    together = gp.quantize(
        found,
        data,
        preset="fast",
        statistics=tmp_path / "together.npz",
        distributed="ray",
        on_progress=lambda *said: heard.append(said),
    )
    with np.load(tmp_path / "alone.npz") as one, np.load(tmp_path / "together.npz") as other:
        assert one.files == other.files
        assert all(np.array_equal(one[name], other[name]) for name in one.files)
    assert gp.to_onnx(alone).SerializeToString() == gp.to_onnx(together).SerializeToString()
    assert together.report is not None
    seen = [done for stage, done, _ in heard if stage == "observe"]
    assert len(seen) > 4
    assert seen == sorted(seen)
    assert seen[-1] == 400 - together.report.held_back
    _on_the_command_line(found, data, tmp_path)
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0012.*was not observed on the cluster.*nobody"):
        list(on_ray(shards.Plan(found.graph, {"nobody": None}), [[(nets.samples(found, 2), 2)]], heard.append))


def _on_the_command_line(found, data, place):
    gp.save(found, place / "net.onnx")
    np.savez(place / "samples.npz", **data)
    words = [place / "net.onnx", place / "out.onnx", "--calibration", place / "samples.npz", "--preset", "fast"]
    result = CliRunner().invoke(cli, ["quantize", *map(str, words), "--distributed", "ray", "--no-latency"])
    assert result.exit_code == 0, result.output
    assert (place / "out.onnx").exists()


def test_shards_are_the_same_however_they_are_taken():
    runs = [({"x": np.full((2, 3), number, np.float32)}, 2) for number in range(shards.SAMPLES + 1)]
    taken = [[inputs["x"][0, 0] for inputs, _ in shard] for shard in shards.sharded(runs)]
    assert [len(shard) for shard in taken] == [shards.SAMPLES // 2, shards.SAMPLES // 2, 1]
    assert [number for shard in taken for number in shard] == list(range(shards.SAMPLES + 1))


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


def test_unknown_ways_are_told():
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0011.*'smoke'.*ways: ray"):
        observer("smoke")


def test_without_ray_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0011.*pip install 'ray"):
        gp.quantize(found, nets.samples(found), distributed="ray")


@pytest.mark.usefixtures("alone")
def test_a_cluster_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0012.*no Ray cluster"):
        gp.quantize(found, nets.samples(found), distributed="ray")


def test_layers_of_a_language_model_are_rounded_on_two_machines_to_the_last_bit(cluster, monkeypatch):
    found, data, sent = decoder(), _tokens(), []
    monkeypatch.setattr(LayersOnRay, "_round", _watched(LayersOnRay._round, sent))
    settings = {"weights_only": True, "weight_bits": 4, "weight_block": 16}
    # Then layer by layer, as large models are, with parts of results on several machines.
    for is_streamed in (False, True):
        monkeypatch.setattr(layer, "LARGE", 1 if is_streamed else layer.LARGE)
        monkeypatch.setattr(parts, "MOST", 512 if is_streamed else parts.MOST)
        sent.clear()
        alone = gp.quantize(found, data, **settings)
        assert not sent
        together = gp.quantize(found, data, distributed="ray", **settings)
        # Layers that read one value are rounded side by side.
        assert ["gate0", "up0"] in sent
        assert {name for names in sent for name in names} == {"gate0", "up0", "down0", "gate1", "up1", "down1", "head"}
        assert gp.to_onnx(alone).SerializeToString() == gp.to_onnx(together).SerializeToString()
        assert alone.report.snr_db == together.report.snr_db
        assert [each.as_json() for each in alone.report.layers] == [each.as_json() for each in together.report.layers]


def _watched(function, sent):
    def watch(self, choices, follower, layers, rows):
        sent.append([each.name for each in layers])
        return function(self, choices, follower, layers, rows)

    return watch
