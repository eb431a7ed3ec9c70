"""Reading IR files, against OpenVINO's own reader, in processor time and in turns."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import graphport as gp

LAYERS = 20_000
WEIGHTS, BYTES = 64, 4 << 20
ROUNDS = 3
GOALS = {"chain": "at most 1", "names": "at most 1.5", "constants": "at most 1", "weights": "at most 1"}

PORT = (
    '\t\t\t\t<port id="{}" precision="FP32">\n'
    + "".join(f"\t\t\t\t\t<dim>{n}</dim>\n" for n in (1, 3, 8, 8))
    + "\t\t\t\t</port>\n"
)


def layer(
    number: int,
    name: str,
    type: str,
    data: str = "",
    *,
    inputs: int = 0,
    outputs: int = 1,
    port: str = PORT,
    tensor: str = "",
) -> str:
    def group(tag: str, numbers: range) -> str:
        named = port.replace('"FP32"', f'"FP32" names="{tensor}"') if tensor and tag == "output" else port
        ports = "".join(named.format(n) for n in numbers)
        return f"\t\t\t<{tag}>\n{ports}\t\t\t</{tag}>\n" if ports else ""

    said = group("input", range(inputs)) + group("output", range(inputs, inputs + outputs))
    return f'\t\t<layer id="{number}" name="{name}" type="{type}" version="opset1">\n{data}{said}\t\t</layer>\n'


def network(layers: list[str], edges: list[tuple[int, int, int, int]]) -> str:
    joined = "".join(
        f'\t\t<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}" />\n' for a, b, c, d in edges
    )
    return (
        '<?xml version="1.0"?>\n<net name="large" version="11">\n'
        f"\t<layers>\n{''.join(layers)}\t</layers>\n\t<edges>\n{joined}\t</edges>\n\t<rt_info />\n</net>\n"
    )


def chained(path: Path, *, names: bool) -> Path:
    parameter = '\t\t\t<data shape="1,3,8,8" element_type="f32" />\n'
    layers = [layer(0, "x", "Parameter", parameter, tensor="x" if names else "")]
    tensors = [f"t{n}" if names else "" for n in range(LAYERS + 1)]
    layers += [layer(n, f"r{n}", "ReLU", inputs=1, tensor=tensors[n]) for n in range(1, LAYERS + 1)]
    layers.append(layer(LAYERS + 1, "result", "Result", inputs=1, outputs=0))
    edges = [(n - 1, 0 if n == 1 else 1, n, 0) for n in range(1, LAYERS + 2)]
    path.write_text(network(layers, edges))
    path.with_suffix(".bin").touch()
    return path


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of 20,000 layers."""
    return chained(tmp_path_factory.mktemp("chain") / "model.xml", names=False)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain with a name for the tensor of each output port, as in files that were made from ONNX."""
    return chained(tmp_path_factory.mktemp("names") / "model.xml", names=True)


@pytest.fixture(scope="module")
def constants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,002 layers, half of them constants of three numbers that are added one after another."""
    port = '\t\t\t\t<port id="{}" precision="FP32">\n' + "".join(f"\t\t\t\t\t<dim>{n}</dim>\n" for n in (1, 3, 1, 1))
    layers = [layer(0, "x", "Parameter", '\t\t\t<data shape="1,3,8,8" element_type="f32" />\n')]
    edges: list[tuple[int, int, int, int]] = []
    for n in range(LAYERS // 2):
        data = f'\t\t\t<data element_type="f32" shape="1, 3, 1, 1" offset="{12 * n}" size="12" />\n'
        layers.append(layer(2 * n + 1, f"w{n}", "Const", data, port=port + "\t\t\t\t</port>\n"))
        add = layer(2 * n + 2, f"a{n}", "Add", '\t\t\t<data auto_broadcast="numpy" />\n', inputs=2)
        layers.append(add.replace(PORT.format(1), port.format(1) + "\t\t\t\t</port>\n"))
        edges += [(2 * n, 2 if n else 0, 2 * n + 2, 0), (2 * n + 1, 0, 2 * n + 2, 1)]
    layers.append(layer(LAYERS + 1, "result", "Result", inputs=1, outputs=0))
    edges.append((LAYERS, 2, LAYERS + 1, 0))
    path = tmp_path_factory.mktemp("constants") / "model.xml"
    path.write_text(network(layers, edges))
    path.with_suffix(".bin").write_bytes(np.arange(3 * LAYERS // 2, dtype=np.float32).tobytes())
    return path


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 MiB of weights, added one after another."""
    port = f'\t\t\t\t<port id="{{}}" precision="FP32">\n\t\t\t\t\t<dim>{BYTES // 4}</dim>\n\t\t\t\t</port>\n'
    layers = [layer(0, "x", "Parameter", f'\t\t\t<data shape="{BYTES // 4}" element_type="f32" />\n', port=port)]
    edges: list[tuple[int, int, int, int]] = []
    last = 0, 0
    for n in range(WEIGHTS):
        data = f'\t\t\t<data element_type="f32" shape="{BYTES // 4}" offset="{n * BYTES}" size="{BYTES}" />\n'
        layers.append(layer(2 * n + 1, f"w{n}", "Const", data, port=port))
        layers.append(layer(2 * n + 2, f"a{n}", "Add", '\t\t\t<data auto_broadcast="numpy" />\n', inputs=2, port=port))
        edges += [(last[0], last[1], 2 * n + 2, 0), (2 * n + 1, 0, 2 * n + 2, 1)]
        last = (2 * n + 2, 2)
    layers.append(layer(2 * WEIGHTS + 1, "result", "Result", inputs=1, outputs=0, port=port))
    edges.append((last[0], last[1], 2 * WEIGHTS + 1, 0))
    path = tmp_path_factory.mktemp("weights") / "model.xml"
    path.write_text(network(layers, edges))
    with path.with_suffix(".bin").open("wb") as file:
        for n in range(WEIGHTS):
            file.write(np.full(BYTES // 4, n, np.float32).tobytes())
    return path


def in_turns(ours, theirs):
    """The least processor time of each in milliseconds."""
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for index, work in enumerate((ours, theirs)):
            start = time.process_time()
            work()
            best[index] = min(best[index], (time.process_time() - start) * 1e3)
    return best


@pytest.mark.parametrize("name", ["chain", "names", "constants", "weights"])
def test_reading(name, request, benchmark, figure):
    """`load(raw=True)` against `Core().read_model`."""
    import openvino

    path = request.getfixturevalue(name)
    ours, theirs = in_turns(lambda: gp.load(path, raw=True), lambda: openvino.Core().read_model(str(path)))
    figure(f"{name}: {ours:.4g} ms against {theirs:.4g} ms", ours / theirs, GOALS[name])
    benchmark.pedantic(lambda: gp.load(path, raw=True), rounds=1)
    assert len(gp.load(path, raw=True).graph) in (LAYERS, LAYERS // 2, WEIGHTS)


def test_writing(chain, tmp_path, benchmark, figure):
    """`save` of what `load(raw=True)` gave against `serialize`."""
    import openvino

    raw, theirs_read = gp.load(chain, raw=True), openvino.Core().read_model(str(chain))
    ours, theirs = in_turns(
        lambda: gp.save(raw, tmp_path / "a.xml"), lambda: openvino.serialize(theirs_read, str(tmp_path / "b.xml"))
    )
    figure(f"chain written: {ours:.4g} ms against {theirs:.4g} ms", ours / theirs, "none yet")
    benchmark.pedantic(lambda: gp.save(raw, tmp_path / "a.xml"), rounds=1)
    assert (tmp_path / "a.xml").read_bytes() == chain.read_bytes()


def test_reading_in_canonical_form(chain, benchmark, figure):
    """`load` against `read_model`."""
    import openvino

    ours, theirs = in_turns(lambda: gp.load(chain), lambda: openvino.Core().read_model(str(chain)))
    figure(f"chain, canonical: {ours:.4g} ms against {theirs:.4g} ms", ours / theirs, "none yet")
    benchmark.pedantic(lambda: gp.load(chain), rounds=1)
    assert len(gp.load(chain).graph) == LAYERS
