"""Processor time of reading IR files, compared with OpenVINO's reader; both run alternately."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.files import ir_chain, ir_constants, ir_layer, ir_network

import graphport as gp

LAYERS = 20_000
WEIGHTS, BYTES = 64, 4 << 20
ROUNDS = 3
GOALS = {"chain": "at most 1", "names": "at most 1.5", "constants": "at most 1", "weights": "at most 1"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a chain of 20,000 layers."""
    return ir_chain(tmp_path_factory.mktemp("chain") / "model.xml", LAYERS, names=False)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the chain with a tensor name at each output port, as in files converted from ONNX."""
    return ir_chain(tmp_path_factory.mktemp("names") / "model.xml", LAYERS, names=True)


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 20,002 layers: a chain of Add with a constant of three elements each."""
    return ir_constants(tmp_path_factory.mktemp("constants") / "model.xml", LAYERS)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a chain of Add with 256 MiB of weights."""
    port = f'\t\t\t\t<port id="{{}}" precision="FP32">\n\t\t\t\t\t<dim>{BYTES // 4}</dim>\n\t\t\t\t</port>\n'
    layers = [ir_layer(0, "x", "Parameter", f'\t\t\t<data shape="{BYTES // 4}" element_type="f32" />\n', port=port)]
    edges: list[tuple[int, int, int, int]] = []
    last = 0, 0
    for n in range(WEIGHTS):
        data = f'\t\t\t<data element_type="f32" shape="{BYTES // 4}" offset="{n * BYTES}" size="{BYTES}" />\n'
        layers.append(ir_layer(2 * n + 1, f"w{n}", "Const", data, port=port))
        layers.append(
            ir_layer(2 * n + 2, f"a{n}", "Add", '\t\t\t<data auto_broadcast="numpy" />\n', inputs=2, port=port)
        )
        edges += [(last[0], last[1], 2 * n + 2, 0), (2 * n + 1, 0, 2 * n + 2, 1)]
        last = (2 * n + 2, 2)
    layers.append(ir_layer(2 * WEIGHTS + 1, "result", "Result", inputs=1, outputs=0, port=port))
    edges.append((last[0], last[1], 2 * WEIGHTS + 1, 0))
    path = tmp_path_factory.mktemp("weights") / "model.xml"
    path.write_text(ir_network(layers, edges))
    with path.with_suffix(".bin").open("wb") as file:
        for n in range(WEIGHTS):
            file.write(np.full(BYTES // 4, n, np.float32).tobytes())
    return path


def in_turns(ours, theirs):
    """Return the minimum processor time of each function in milliseconds; both run alternately."""
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for index, work in enumerate((ours, theirs)):
            start = time.process_time()
            work()
            best[index] = min(best[index], (time.process_time() - start) * 1e3)
    return best


@pytest.mark.parametrize("name", ["chain", "names", "constants", "weights"])
def test_reading(name, request, benchmark, figure):
    """Compare `load(raw=True)` with `Core().read_model`."""
    import openvino

    path = request.getfixturevalue(name)
    ours, theirs = in_turns(lambda: gp.load(path, raw=True), lambda: openvino.Core().read_model(str(path)))
    figure(f"{name}: {ours:.4g} ms against {theirs:.4g} ms", ours / theirs, GOALS[name])
    benchmark.pedantic(lambda: gp.load(path, raw=True), rounds=1)
    assert len(gp.load(path, raw=True).graph) in (LAYERS, LAYERS // 2, WEIGHTS)


def test_writing(chain, tmp_path, benchmark, figure):
    """Compare `save` of a model from `load(raw=True)` with `serialize`."""
    import openvino

    raw, theirs_read = gp.load(chain, raw=True), openvino.Core().read_model(str(chain))
    ours, theirs = in_turns(
        lambda: gp.save(raw, tmp_path / "a.xml"), lambda: openvino.serialize(theirs_read, str(tmp_path / "b.xml"))
    )
    figure(f"chain written: {ours:.4g} ms against {theirs:.4g} ms", ours / theirs, "none yet")
    benchmark.pedantic(lambda: gp.save(raw, tmp_path / "a.xml"), rounds=1)
    assert (tmp_path / "a.xml").read_bytes() == chain.read_bytes()


def test_reading_in_canonical_form(chain, benchmark, figure):
    """Compare `load` with `read_model`."""
    import openvino

    ours, theirs = in_turns(lambda: gp.load(chain), lambda: openvino.Core().read_model(str(chain)))
    figure(f"chain, canonical: {ours:.4g} ms against {theirs:.4g} ms", ours / theirs, "none yet")
    benchmark.pedantic(lambda: gp.load(chain), rounds=1)
    assert len(gp.load(chain).graph) == LAYERS
