"""Each plan of the quantizer is one that the writer of its target accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from tests.models import model, node

FILES = {
    "onnxruntime": "q.onnx",
    "openvino": "q.xml",
    "tflite": "q.tflite",
    "nnef": "q.nnef.tgz",
    "ncnn": "q.ncnn.param",
}


def random_net(data: st.DataObject) -> tuple[gp.Model, dict[str, np.ndarray]]:
    """A chain over a sequence or an image: layers, activations, moves of axes, sums of two branches."""
    r = np.random.default_rng(data.draw(st.integers(0, 999)))
    rows, width = data.draw(st.sampled_from([(1, 6), (6, 1), (4, 3)])), 8
    shape: tuple[int, ...] = data.draw(st.sampled_from([(1, *rows, width), (rows[0], rows[1], width), (1, width)]))
    start, value, nodes = shape, "x", []
    constants: dict[str, Any] = {}
    kinds = st.sampled_from(["MatMul", "Gemm", "Relu", "Sigmoid", "Transpose", "Add", "Reshape", "Softmax", "Mul"])
    for i, kind in enumerate(["MatMul", *data.draw(st.lists(kinds, min_size=1, max_size=5))]):
        result = f"v{i}"
        if kind in {"MatMul", "Gemm"}:
            if kind == "Gemm" and len(shape) != 2:
                shape = (int(np.prod(shape[:-1])), shape[-1])
                constants[f"f{i}"] = np.array(shape)
                nodes.append(node("Reshape", [value, f"f{i}"], [f"r{i}"]))
                value = f"r{i}"
            constants[f"w{i}"] = (r.normal(size=(shape[-1], 8)) / np.sqrt(shape[-1])).astype(np.float32)
            nodes.append(node(kind, [value, f"w{i}"], [result]))
            shape = (*shape[:-1], 8)
        elif kind == "Transpose":
            order = [0, *range(2, len(shape)), 1] if len(shape) > 2 else [0, 1]
            nodes.append(node("Transpose", [value], [result], perm=order))
            shape = tuple(shape[axis] for axis in order)
        elif kind == "Reshape":
            shape = (1, int(np.prod(shape[:-1])), shape[-1])
            constants[f"s{i}"] = np.array(shape)
            nodes.append(node("Reshape", [value, f"s{i}"], [result]))
        elif kind in {"Add", "Mul"}:
            nodes.append(node(kind, [value, value], [result]))
        else:
            nodes.append(node(kind, [value], [result]))
        value = result
    source = gp.from_onnx(model(nodes, [("x", start)], [(value, shape)], constants))
    items = [r.normal(size=start).astype(np.float32) for _ in range(8)]
    return source, {"x": np.stack(items)}


@pytest.mark.parametrize("target", FILES)
def test_random_nets_are_written_after_quantization(target: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp(target)

    @settings(max_examples=25, deadline=None, database=None)
    @given(st.data())
    def written(data: st.DataObject) -> None:
        source, samples = random_net(data)
        try:
            gp.save(source, folder / FILES[target])
        except gp.DiagnosticError:
            return  # The float model has no form there either.
        items = [{"x": x} for x in samples["x"]]
        try:
            made = gp.quantize(source, items, target=target, preset=data.draw(st.sampled_from(["fast", "balanced"])))
        except gp.DiagnosticError as error:
            assert {finding.code for finding in error.diagnostics} <= {"QUANT0007"}  # noqa: PT017
            return
        gp.save(made, folder / FILES[target])

    written()
