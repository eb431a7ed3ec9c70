"""Threads and processes give the bytes and results of sequential execution."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import graphport as gp
from tests.models import model, node, typed, write_onnx

ROOT = Path(__file__).parent.parent


def _network(path: Path) -> Path:
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "scale": random.normal(size=4).astype(np.float32) ** 2 + 1,
        "b": np.zeros(4, np.float32),
        "mean": np.ones(4, np.float32),
        "v": np.ones(4, np.float32),
    }
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "b", "mean", "v"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("GlobalAveragePool", ["r"], ["y"]),
    ]
    return write_onnx(path, model(nodes, [typed("x", ["N", 3, 8, 8])], [typed("y", ["N", 4, 1, 1])], constants))


def _work(path: Path, given: gp.Model | None = None) -> str:
    """Return a digest of all results for a model."""
    loaded = gp.load(path) if given is None else given
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        digest = hashlib.sha256()
        gp.save(gp.simplify(loaded, verify=False)[0], Path(folder) / "m.onnx")
        gp.save(loaded, Path(folder) / "m.xml")
        gp.inspect(loaded)
        for made in sorted(Path(folder).iterdir()):
            digest.update(made.read_bytes())
        x = np.linspace(-1, 1, 2 * 3 * 64, dtype=np.float32).reshape(2, 3, 8, 8)
        for backend in ("reference", "fused"):
            digest.update(gp.run(loaded, {"x": x}, backend=backend)["y"].tobytes())
    return digest.hexdigest()


def _expression(number: int) -> bytes:
    x = np.arange(1000, dtype=np.float32)
    return gp.Expression(f"add(mul(@0,{number % 4}.5),sqrt(abs(@1)))")(x, x).tobytes()


@pytest.mark.parametrize("is_shared", [False, True], ids=["a model each", "one model"])
def test_eight_threads_match_one_thread(tmp_path, is_shared):
    path = _network(tmp_path / "net.onnx")
    given = gp.load(path) if is_shared else None
    wanted = _work(path)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: _work(path, given), range(16))) == {wanted}
    assert gc.isenabled()


FIRST = """
import sys, threading
from pathlib import Path
sys.setswitchinterval(1e-6)
from tests.test_concurrency import _work
start, found = threading.Barrier(8), []
def work():
    start.wait()
    found.append(_work(Path(sys.argv[1])))
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(*found)
"""


def test_eight_threads_match_one_thread_at_first_use(tmp_path):
    # Operator definitions, rules and kernels are loaded at first use; the thread switch interval is short.
    path = _network(tmp_path / "net.onnx")
    command = [sys.executable, "-W", "error", "-c", FIRST, path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == [_work(path)] * 8, done.stderr


def test_eight_threads_compile_and_compute_equal_results_expressions():
    wanted = [_expression(number) for number in range(4)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(_expression, range(200)))
    assert found == wanted * 50


PROCESSES = """
import multiprocessing, sys
from pathlib import Path
from tests.test_concurrency import _expression, _work
path = Path(sys.argv[1])
# What is compiled before a fork is there behind it.
wanted, expected = _work(path), _expression(1)
with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
    assert set(pool.map(_work, [path] * 4)) == {wanted}
    assert set(pool.map(_expression, [1] * 4)) == {expected}
print("equal")
"""


@pytest.mark.parametrize("method", sorted(set(multiprocessing.get_all_start_methods()) & {"fork", "spawn"}))
def test_processes_match_one_process(tmp_path, method):
    # In a separate process: state of other tests, such as Ray clients, does not survive a fork.
    command = [sys.executable, "-c", PROCESSES, _network(tmp_path / "net.onnx"), method]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)
    assert done.stdout.split() == ["equal"], done.stderr


BACKENDS = ("reference", "fused", "onnxruntime")


def _inputs(number: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(number).normal(size=(2, 3, 8, 8)).astype(np.float32)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_threads_share_a_session(tmp_path, backend):
    path = _network(tmp_path / "net.onnx")
    given = [_inputs(number) for number in range(4)]
    wanted = [gp.run(gp.load(path), each, backend=backend)["y"].tobytes() for each in given]
    session = gp.session(gp.load(path), backend=backend)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: session.run(given[number % 4])["y"].tobytes(), range(80)))
    assert found == wanted * 20


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are forked")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_session_survives_a_fork(tmp_path, backend):
    # ONNX Runtime's threads do not survive; with one thread it uses only the caller's.
    session = gp.session(
        gp.load(_network(tmp_path / "net.onnx")), backend=backend, threads=int(backend == "onnxruntime")
    )
    wanted = session.run(_inputs(1))["y"].tobytes()
    read, write = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.write(write, session.run(_inputs(1))["y"].tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        assert stream.read() == wanted
    assert os.waitpid(process, 0)[1] == 0
    assert session.run(_inputs(1))["y"].tobytes() == wanted
