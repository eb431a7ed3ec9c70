"""Write small models for ncnn and compare its results with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
from onnx import ValueInfoProto, helper

import graphport as gp
from tests.formats.ncnn.test_layers import run_ncnn
from tests.models import model, typed


def saved(folder, nodes, given, constants=None, opset=22):
    """Write the model as `net.param` to a folder; its outputs are the results without a consumer."""
    read = {name for each in nodes for name in each.input}
    results = [name for each in nodes for name in each.output if name not in read]
    inputs = [typed(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype)) for name, array in given.items()]
    proto = model(nodes, inputs, [ValueInfoProto(name=name) for name in results], constants or {}, opset=opset)
    made = gp.from_onnx(proto)
    gp.save(made, folder / "net.param")
    return made


def computed(folder, nodes, given, constants=None, opset=22):
    """Return pairs of ONNX Runtime's and ncnn's results."""
    made = saved(folder, nodes, given, constants, opset)
    expected = gp.run(made, given, backend="onnxruntime")
    blobs = {
        name: np.ascontiguousarray(
            array[0] if array.shape[0] == 1 else array, np.int32 if array.dtype.kind in "iub" else np.float32
        )
        for name, array in given.items()
    }
    found = run_ncnn(folder / "net.param", blobs, list(expected))
    return [(array, found[name].reshape(array.shape)) for name, array in expected.items()]


def check(folder, nodes, given, constants=None, rtol=1e-5):
    for expected, found in computed(folder, nodes, given, constants):
        np.testing.assert_allclose(found, expected.astype(np.float64), rtol=rtol, atol=1e-6)
