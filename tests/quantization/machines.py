"""Workers of distributed quantization: of a Ray cluster, or simulated by objects of this process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.quantization import channel_blocks as parts
from graphport.quantization import layer, shards
from graphport.quantization.distributed import LayersOnRay, on_ray
from tests.quantization import nets
from tests.quantization.test_weights_alone import _tokens, decoder


@contextmanager
def alone() -> Iterator[None]:
    """Ray finds every cluster of the machine, and tests run in parallel."""
    fcntl = pytest.importorskip("fcntl")
    with (Path(gettempdir()) / "graphport-tests-of-ray").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def cluster() -> Iterator[Any]:
    """A cluster of two machines, both of which are processes here."""
    with alone(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        of_each = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_log_monitor": False}
        made = Cluster(initialize_head=True, head_node_args={**of_each, "include_dashboard": False})
        made.add_node(**of_each)
        patched.setenv("RAY_ADDRESS", made.address)
        yield made
        made.shutdown()


class RayError(Exception):
    """What Ray raises where a task failed."""


class Objects:
    """The part of Ray's interface that is used, without processes: arguments and results are pickled as in Ray.

    A reference that is an argument is resolved, and one within an argument is not.
    """

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self.made: list[Any] = []

    def is_initialized(self) -> bool:
        return True

    def available_resources(self) -> dict[str, float]:
        return {"CPU": float(self._cores)}

    def put(self, value: Any) -> Reference:
        return Reference(pickle.dumps(value))

    def get(self, asked: Any) -> Any:
        if isinstance(asked, list):
            return [self.get(each) for each in asked]
        if isinstance(asked.content, Exception):
            raise RayError(f"Traceback of another process\n{asked.content!r}")
        return pickle.loads(asked.content)  # noqa: S301  our own

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda kind: SimpleNamespace(remote=lambda: self._actor(kind))

    def _actor(self, kind: type) -> Actor:
        self.made.append(Actor(self, kind()))
        return self.made[-1]


class Reference:
    """A reference to an object in the store; a failure is raised when it is fetched."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content = content


class Actor:
    """An object with remote methods."""

    def __init__(self, objects: Objects, worker: Any) -> None:
        self._objects, self._worker = objects, worker
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: self._call(name, given))

    def _call(self, name: str, given: tuple[Any, ...]) -> Reference:
        self.asked.append(name)
        taken = [
            self._objects.get(each) if isinstance(each, Reference) else self._objects.get(self._objects.put(each))
            for each in given
        ]
        try:
            return self._objects.put(getattr(self._worker, name)(*taken))
        except Exception as error:  # noqa: BLE001  any exception, as from a process
            return Reference(error)


def observe_as_one_does(place: Path) -> None:
    """Two workers compute the statistics of one, bit for bit."""
    found = nets.residual()
    # More shards than are queued for both workers; the last shard is smaller.
    data = nets.samples(found, 400)
    heard = []
    one, other = place / "alone.npz", place / "together.npz"
    single = gp.quantize(found, data, preset="fast", statistics=one)
    together = gp.quantize(
        found, data, preset="fast", statistics=other, distributed="ray", on_progress=lambda *said: heard.append(said)
    )
    with np.load(one) as seen_alone, np.load(other) as seen:
        assert seen_alone.files == seen.files
        assert all(np.array_equal(seen_alone[name], seen[name]) for name in seen.files)
    assert gp.to_onnx(single).SerializeToString() == gp.to_onnx(together).SerializeToString()
    assert together.report is not None
    told = [done for stage, done, _ in heard if stage == "observe"]
    assert len(told) > 4
    assert told == sorted(told)
    assert told[-1] == 400 - together.report.held_back
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0012.*was not observed on the cluster.*nobody"):
        list(on_ray(shards.Plan(found.graph, {"nobody": None}), [[(nets.samples(found, 2), 2)]], heard.append))


def observe_on_the_command_line(place: Path) -> None:
    """The command line option gives the same result."""
    found = nets.residual()
    gp.save(found, place / "net.onnx")
    np.savez(place / "samples.npz", **nets.samples(found, 40))
    words = [place / "net.onnx", place / "out.onnx", "--calibration", place / "samples.npz", "--preset", "fast"]
    result = CliRunner().invoke(cli, ["quantize", *map(os.fspath, words), "--distributed", "ray", "--no-latency"])
    assert result.exit_code == 0, result.output
    assert (place / "out.onnx").exists()


def round_as_one_does() -> None:
    """Two machines round the layers of a language model as one does, to the last bit."""
    found, data, sent = decoder(), _tokens(), []
    settings = {"weights_only": True, "weight_bits": 4, "weight_block": 16}
    # Then layer by layer, as large models are, with parts of results on several machines.
    for is_streamed in (False, True):
        with pytest.MonkeyPatch.context() as patched:
            # Products are marked as exact by measured time, which differs between two runs of one machine, too.
            patched.setattr("graphport.quantization.quantize.exact_layers", lambda *_: ())
            patched.setattr(LayersOnRay, "_round", _watched(LayersOnRay._round, sent))
            patched.setattr(layer, "LARGE", 1 if is_streamed else layer.LARGE)
            patched.setattr(parts, "MAX_PART_ELEMENTS", 512 if is_streamed else parts.MAX_PART_ELEMENTS)
            sent.clear()
            single = gp.quantize(found, data, **settings)
            assert not sent
            together = gp.quantize(found, data, distributed="ray", **settings)
        # Layers with a common operand are quantized in parallel.
        assert ["gate0", "up0"] in sent
        assert {name for names in sent for name in names} == {"gate0", "up0", "down0", "gate1", "up1", "down1", "head"}
        assert gp.to_onnx(single).SerializeToString() == gp.to_onnx(together).SerializeToString()
        assert single.report.snr_db == together.report.snr_db
        assert [each.as_json() for each in single.report.layers] == [each.as_json() for each in together.report.layers]


def _watched(function, sent):
    def watch(self, choices, follower, layers, rows):
        sent.append([each.name for each in layers])
        return function(self, choices, follower, layers, rows)

    return watch
