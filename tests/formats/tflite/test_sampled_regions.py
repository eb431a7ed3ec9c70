"""Images read at places that a net computes, in LiteRT: deformable convolutions and regions of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]


def saved(path: Path, op: str, given: dict[str, Array], opened: dict[str, list[Any]] | None = None, **how: Any) -> None:
    """A net of one node; operands without a name are absent."""
    shapes = opened or {}
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), shapes.get(name, list(x.shape)))
        for name, x in given.items()
    ]
    names = ["x", "w", "offset", "b", "mask"] if op == "DeformConv" else list(given)
    operands = [name if name in given else "" for name in names]
    graph = helper.make_graph(
        [helper.make_node(op, operands, ["y"], **how)], "g", ports, [onnx.ValueInfoProto(name="y")]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"group": 2, "offset_group": 3, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]},
        {"offset_group": 2, "pads": [3, 3, 3, 3]},
    ],
)
def test_a_deformable_convolution_reads_where_its_offsets_say(how: dict[str, Any], tmp_path: Path) -> None:
    """Far outside of the image, too, where zeros are, and at its borders."""
    random = np.random.default_rng(3)
    group, parts = how.get("group", 1), how.get("offset_group", 1)
    x, w = random.normal(size=(2, 6, 7, 8)), random.normal(size=(4, 6 // group, 3, 2))
    (top, left, bottom, right), steps, gaps = (
        how.get("pads", [0] * 4),
        how.get("strides", [1, 1]),
        how.get("dilations", [1, 1]),
    )
    reach = [(k - 1) * d + 1 for k, d in zip((3, 2), gaps, strict=True)]
    sides = zip((7 + top + bottom, 8 + left + right), reach, steps, strict=True)
    out = [(n - k) // s + 1 for n, k, s in sides]
    given = {"x": x, "w": w, "offset": random.normal(size=(2, parts * 12, *out)) * 3, "b": random.normal(size=4)}
    if parts > 1:
        given["mask"] = random.uniform(size=(2, parts * 6, *out))
    single = {name: array.astype(np.float32) for name, array in given.items()}
    saved(tmp_path / "m.onnx", "DeformConv", single, kernel_shape=[3, 2], **how)
    net = gp.load(tmp_path / "m.onnx")
    gp.save(net, tmp_path / "m.tflite")
    with LiteRT() as run:
        found = run(tmp_path / "m.tflite", list(single.values()))
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found[0], gp.run(net, single, backend="reference")["y"], atol=2e-4)


def regions() -> dict[str, Array]:
    """Regions inside, across the borders, outside, and without area, of two images."""
    random = np.random.default_rng(5)
    rois = np.array(
        [[1, 2, 7, 9], [-5, -3, 4, 4], [3, 3, 25, 22], [30, 30, 40, 40], [2, 2, 2, 2], [0, 0, 9, 11]], np.float32
    )
    x = random.normal(size=(2, 3, 11, 10)).astype(np.float32)
    return {"x": x, "rois": rois, "batch_indices": np.array([0, 1, 1, 0, 1, 0], np.int64)}


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_cells_of_regions_hold_the_means_or_maxima_of_points(kind: str, mode: str, tmp_path: Path) -> None:
    given = regions()
    how: dict[str, Any] = {"output_height": 3, "output_width": 4, "sampling_ratio": 2, "spatial_scale": 0.5}
    opened = {"rois": ["r", 4], "batch_indices": ["r"]}
    how |= {"coordinate_transformation_mode": mode, "mode": kind}
    saved(tmp_path / "m.onnx", "RoiAlign", given, opened, **how)
    net = gp.load(tmp_path / "m.onnx")
    gp.save(net, tmp_path / "m.tflite")
    with LiteRT() as run:
        for count in (6, 3):
            fed = given | {name: given[name][:count] for name in ("rois", "batch_indices")}
            found = run(tmp_path / "m.tflite", list(fed.values()))
            assert not isinstance(found, str), found
            np.testing.assert_allclose(found[0], gp.run(net, fed, backend="reference")["y"], atol=1e-5)


def test_regions_with_as_many_points_as_they_are_large_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "m.onnx", "RoiAlign", regions(), None, output_height=2, output_width=2)
    with pytest.raises(DiagnosticError, match="a sampling_ratio of 0"):
        gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")


@pytest.mark.parametrize("ratio", [0, 1 << 20, 1 << 62])
def test_samples_of_a_region_that_no_constant_holds_are_refused(ratio: int, tmp_path: Path) -> None:
    saved(tmp_path / "m.onnx", "RoiAlign", regions(), output_height=3, output_width=4, sampling_ratio=ratio)
    with pytest.raises(DiagnosticError, match="sampling_ratio"):
        gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
