"""Regions at an angle in OpenVINO."""

import numpy as np

from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(2, 3, 10, 12)).astype(np.float32)
ROIS = np.array([[6, 5, 4, 3, 0.5], [1, 9, 7, 2.5, -2], [11, 3, 0.5, 6, 1.57], [4, 4, 16, 11, 3]], np.float32)
OWNERS = np.array([0, 1, 1, 0], np.int32)
CELLS = {"pooled_h": 2, "pooled_w": 3}


@at_once("ratio", [0, 1, 2])
@at_once("clockwise", [False, True])
def test_tilted_regions(ratio, clockwise):
    flags = {"sampling_ratio": ratio, "spatial_scale": 0.75, "clockwise_mode": clockwise, **CELLS}
    check_word("opset15.ROIAlignRotated", [X, ROIS, OWNERS], tolerance=1e-4, **flags)


@at_once("ratio", [0, 2])
def test_tilted_regions_of_dynamic_shape(ratio):
    flags = {"sampling_ratio": ratio, "spatial_scale": 1.5, **CELLS}
    rois = np.where(ROIS[:, 2:4].min(1, keepdims=True) < 1, 0, ROIS)  # one without extent
    check_word("opset15.ROIAlignRotated", [X[:, :, :1], rois, OWNERS], tolerance=1e-4, symbolic=True, **flags)


@at_once("ratio", [0, 2])
def test_no_tilted_regions(ratio):
    flags = {"sampling_ratio": ratio, "spatial_scale": 1.0, **CELLS}
    found = check_word(
        "opset15.ROIAlignRotated", [X, ROIS[:0], OWNERS[:0]], expected=[np.zeros((0, 3, 2, 3), np.float32)], **flags
    )
    assert found[0].shape == (0, 3, 2, 3)


@at_once(
    ("wrong", "words"),
    [
        ({"pooled_h": 0}, "0 by 3 cells"),
        ({"sampling_ratio": -2}, "-2 samples"),
        ({"sampling_ratio": 2_000_000_000}, "samples of a region"),
        ({"numbers": 4}, "expected [N, 5]"),
    ],
)
def test_what_is_no_grid_is_reported(wrong, words):
    graph = Graph("one")
    said = {"sampling_ratio": 2, "spatial_scale": 1.0, "clockwise_mode": False, **CELLS, **wrong}
    shapes = (X.shape, (4, said.pop("numbers", 5)), (4,))
    kinds = (DType.FLOAT32, DType.FLOAT32, DType.INT32)
    values = [
        graph.add_input(f"i{k}", TensorFact(kind, shape))
        for k, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))
    ]
    node = Node("opset15.ROIAlignRotated", values, [Value("y")], said, dialect="openvino")
    graph.append(node)
    graph.add_output(node.outputs[0])
    _, findings = legalize(graph)
    assert any(words in finding.message for finding in findings), findings
