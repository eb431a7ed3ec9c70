"""Axes of samples are written without a name for ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.open_axes import unnamed
from tests.quantization import nets


def _dims(model):
    ends = (*model.graph.input, *model.graph.output)
    return [[dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in ends]


@pytest.mark.parametrize(("target", "batch"), [("onnxruntime", 0), ("openvino", "N")])
def test_the_first_axis_is_free_and_has_no_name(target, batch):
    found = nets.residual()
    samples = nets.samples(found, 32)
    made = gp.quantize(found, samples, target, preset="fast")
    written = gp.to_onnx(made)
    assert _dims(written) == [[batch, 3, 8, 8], [batch, 5]]
    read = gp.from_onnx(written)
    for count in (1, 7):
        few = {"x": samples["x"][:count]}
        np.testing.assert_allclose(gp.run(read, few)["y"], gp.run(made, few)["y"], atol=1e-5)


def test_a_fixed_batch_stays():
    graph = nets.residual(batch=2).graph
    assert unnamed(graph) is graph
