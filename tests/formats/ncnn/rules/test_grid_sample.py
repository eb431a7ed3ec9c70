"""The nearest pixel, half-way between two: ncnn and ONNX Runtime take different ones, and we know which."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.formats.ncnn.rules.written import check, saved
from tests.formats.ncnn.test_layers import run_ncnn
from tests.models import model, node

ort = pytest.importorskip("onnxruntime")


SHAPES = [(2, 4, 6), (1, 5, 7), (3, 1, 8)]


def halves(shape, *, aligns):
    """A picture, and places on its pixels and just between two of them, beyond the edges too."""
    random = np.random.default_rng(sum(shape))
    _, height, width = shape

    def places(length):
        k = random.integers(-2, 2 * length + 2, size=(6, 9)) / 2
        if aligns:
            return 2 * k / max(length - 1, 1) - 1
        return (2 * k + 1) / length - 1

    grid = np.stack([places(width), places(height)], axis=-1)
    return random.normal(size=shape).astype(np.float32), grid.astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("aligns", [0, 1])
@pytest.mark.parametrize("border", [1, 2, 3])
def test_a_layer_is_read_as_ncnn_computes_it(tmp_path, shape, aligns, border):
    rows = ["Input x 0 1 x", "Input g 0 1 g", f"GridSample s 2 1 x g y 0=2 1={border} 2={aligns}"]
    path = tmp_path / "net.param"
    path.write_text("7767517\n3 3\n" + "\n".join(rows) + "\n")
    path.with_suffix(".bin").write_bytes(b"")
    x, grid = halves(shape, aligns=aligns)
    expected = run_ncnn(path, {"x": x, "g": grid}, ["y"])["y"]
    read = gp.load(path, shapes={"x": (1, *x.shape), "g": (1, *grid.shape)})
    found = gp.run(read, {"x": x[None], "g": grid[None]}, backend="reference")["y"]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    gp.save(read, tmp_path / "again.param")
    again = run_ncnn(tmp_path / "again.param", {"x": x, "g": grid}, ["y"])["y"]
    np.testing.assert_array_equal(again.reshape(expected.shape), expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("aligns", [0, 1])
@pytest.mark.parametrize("border", ["zeros", "border"])
def test_an_operator_is_written_as_onnx_means_it(tmp_path, shape, aligns, border):
    x, grid = halves(shape, aligns=aligns)
    sampling = node("GridSample", ["x", "g"], ["y"], mode="nearest", padding_mode=border, align_corners=aligns)
    inputs = [("x", [1, *x.shape]), ("g", [1, *grid.shape])]
    proto = model([sampling], inputs, [("y", None)], opset=16)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x[None], "g": grid[None]})
    gp.save(gp.from_onnx(proto), tmp_path / "net.param")
    found = run_ncnn(tmp_path / "net.param", {"x": x, "g": grid}, ["y"])["y"]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("aligns", [0, 1])
def test_places_that_are_rounded_otherwise_may_stand_half_way(tmp_path, aligns):
    x, _ = halves((2, 4, 5), aligns=aligns)
    grid = np.random.default_rng(1).uniform(-1, 1, (6, 9, 2)).astype(np.float32)
    nodes = [node("Mul", ["g", "four"], ["h"])]
    for op in ("Round", "Floor"):
        nodes += [node(op, ["h"], [f"{op}1"]), node("Mul", [f"{op}1", "quarter"], [f"{op}2"])]
        sampling = {"mode": "nearest", "align_corners": aligns}
        nodes.append(node("GridSample", ["x", f"{op}2"], [f"y{op}"], **sampling))
    constants = {"four": np.array(4, np.float32), "quarter": np.array(0.25, np.float32)}
    check(tmp_path, nodes, {"x": x[None], "g": grid[None]}, constants)


@pytest.mark.parametrize("aligns", [0, 1])
def test_what_is_read_and_written_again_is_no_longer(tmp_path, aligns):
    first, again = tmp_path / "net.param", tmp_path / "again.param"
    x, grid = halves((2, 4, 6), aligns=aligns)
    nodes = [node("GridSample", ["x", "g"], ["y"], mode="nearest", align_corners=aligns)]
    saved(tmp_path, nodes, {"x": x[None], "g": grid[None]})
    for source, target in ((first, again), (again, first)):
        gp.save(gp.load(source), target)
    lengths = [sum(line.startswith("UnaryOp") for line in path.read_text().splitlines()) for path in (first, again)]
    assert lengths[0] == lengths[1]
