"""Images of open height and width in tract: the proof runs the written file in tract on several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.models import model, node, write_onnx

BOUNDS = {"axes": np.array([2, 3]), "steps": np.array([2, 2]), "end": np.array([2**62, 2**62])}


def resize(mode, coordinates, nearest="floor", scale=0.5):
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    attributes |= {"nearest_mode": nearest} if mode == "nearest" else {}
    return [node("Resize", ["x", "", "s"], ["y"], **attributes)], {"s": np.array([1, 1, scale, scale], np.float32)}


def focus(*, is_used_twice=False):
    starts = {f"s{i}{j}": np.array([i, j]) for i in (0, 1) for j in (0, 1)}
    nodes = [node("Slice", ["x", name, "end", "axes", "steps"], [f"c{name}"]) for name in starts]
    made = "f" if is_used_twice else "y"
    nodes.append(node("Concat", [f"c{name}" for name in starts], [made], axis=1))
    nodes += [node("Concat", ["f", "cs00"], ["y"], axis=1)] if is_used_twice else []
    return nodes, {**starts, **BOUNDS}


def doubled():
    """Sizes that the file computes from the image, as in `interpolate(x, size=(2 * h, 2 * w))`."""
    nodes = [node("Shape", ["x"], ["all"]), node("Mul", ["all", "factors"], ["sizes"])]
    resize = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return [*nodes, node("Resize", ["x", "", "", "sizes"], ["y"], **resize)], {"factors": np.array([1, 1, 2, 2])}


CASES = {
    "space to depth": ([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {}),
    "cells of four": ([node("SpaceToDepth", ["x"], ["y"], blocksize=4)], {}),
    "focus": focus(),
    "focus with a slice for another": focus(is_used_twice=True),
    "nearest": resize("nearest", "asymmetric"),
    "nearest centre, down": resize("nearest", "half_pixel", "floor"),
    "nearest centre, up": resize("nearest", "half_pixel", "ceil"),
    "nearest centre, rounded": resize("nearest", "half_pixel", "round_prefer_ceil"),
    "nearest of four": resize("nearest", "half_pixel", "round_prefer_floor", 0.25),
    "linear": resize("linear", "half_pixel"),
    "linear from the corner": resize("linear", "asymmetric"),
    "sizes of twice the image": doubled(),
}


@pytest.mark.parametrize("case", CASES)
def test_smaller_images_and_cells_load_in_tract(tmp_path, case):
    nodes, constants = CASES[case]
    proto = model(nodes, [("x", [1, 3, "H", "W"])], [("y", None)], constants)
    report = gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.nnef.tgz")
    assert report.passed, str(report.proof)
    assert "tract on net.nnef.tgz agree" in str(report.proof)


def test_slices_with_a_shared_start_keep_their_lengths(tmp_path):
    nodes = [node("Slice", ["x", "s00", "end", "axes", "steps"], [name]) for name in ("a", "b")]
    nodes.append(node("Concat", ["a", "b"], ["y"], axis=1))
    proto = model(nodes, [("x", [1, 3, "H", "W"])], [("y", None)], {"s00": np.array([0, 0]), **BOUNDS})
    gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.nnef.tgz")
    x = np.arange(105, dtype=np.float32).reshape(1, 3, 5, 7)
    (found,) = gp.run(gp.load(tmp_path / "net.nnef.tgz"), {"x": x}, backend="reference").values()
    np.testing.assert_array_equal(found, np.concatenate([x[:, :, ::2, ::2]] * 2, 1))
