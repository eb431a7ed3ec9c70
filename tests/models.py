"""Small models in every format, made where a test wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from graphport.core.storage import storage_of
from graphport.formats.nnef.container.tensors import tensor_file

Shaped = tuple[str, Sequence[int | str] | None]

NNEF = """version 1.0;

graph small(x) -> (y)
{
    x = external(shape = [1, 2, 4, 4]);
    w = variable(shape = [3, 2, 3, 3], label = 'conv/w');
    b = variable(shape = [1, 3], label = 'conv/b');
    h = conv(x, w, b, padding = [(1, 1), (1, 1)]);
    y = relu(h);
}
"""


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def typed(name: str, shape: Sequence[int | str] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Shaped | onnx.ValueInfoProto],
    outputs: Sequence[Shaped | onnx.ValueInfoProto],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    domains: dict[str, int] | None = None,
) -> ModelProto:
    """A model; inputs and outputs are float32 where nothing else is said."""
    graph = helper.make_graph(
        nodes,
        "small",
        [item if isinstance(item, onnx.ValueInfoProto) else typed(*item) for item in inputs],
        [item if isinstance(item, onnx.ValueInfoProto) else typed(*item) for item in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    versions = {"": opset, **(domains or {})}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def perceptron(batch: int | str = "N", *, opset: int = 17) -> ModelProto:
    """y = softmax(relu(x w + b) v), from 4 numbers to 3."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(size=(4, 5)).astype(np.float32),
        "b": random.normal(size=5).astype(np.float32),
        "v": random.normal(size=(5, 3)).astype(np.float32),
    }
    nodes = [
        node("Gemm", ["x", "w", "b"], ["hidden"]),
        node("Relu", ["hidden"], ["active"]),
        node("MatMul", ["active", "v"], ["scores"]),
        node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    return model(nodes, [("x", [batch, 4])], [("y", [batch, 3])], constants, opset=opset)


def write_onnx(path: Path, proto: ModelProto) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path


def write_nnef(folder: Path, text: str = NNEF, *, scale: float = 1.0) -> Path:
    """A folder with a convolution; `scale` multiplies its weights."""
    random = np.random.default_rng(1)
    tensors = {
        "conv/w": scale * random.normal(size=(3, 2, 3, 3)).astype(np.float32),
        "conv/b": random.normal(size=(1, 3)).astype(np.float32),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.nnef").write_text(text)
    for label, array in tensors.items():
        path = folder / f"{label}.dat"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(bytes(piece) for piece in tensor_file(storage_of(array), path.name).chunks()))
    return folder
