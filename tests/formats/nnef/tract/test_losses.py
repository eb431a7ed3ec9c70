"""ONNX losses in tract's flavour: tract gathers the element of each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed

RNG = np.random.default_rng(5)


def test_tract_computes_losses_of_every_reduction(tmp_path):
    given: dict[str, Any] = {
        "x": RNG.normal(size=(3, 5, 2)).astype(np.float32),
        "t": np.array([[0, 4], [2, 2], [1, 3]]),
        "w": RNG.random(5).astype(np.float32),
    }
    expected = {}
    for op_type in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        for reduction in ("none", "sum", "mean"):
            options: dict[str, Any] = {"reduction": reduction, "ignore_index": 2}
            node = helper.make_node(op_type, list(given), ["y"], **options)
            inputs = [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in given.items()
            ]
            outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
            graph = helper.make_graph([node], "net", inputs, outputs)
            model = gp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10))
            name = f"{op_type} {reduction}"
            (tmp_path / name).mkdir()
            gp.save(model, tmp_path / name / "model", format="nnef")
            np.savez(tmp_path / name / "given.npz", **given)
            expected[name] = gp.run(model, given, backend="reference")["y"]
    computed(tmp_path)
    for name, right in expected.items():
        found = np.load(tmp_path / name / "found.npz")["arr_0"]
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6, err_msg=name)
