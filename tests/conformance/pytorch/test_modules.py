"""Programs with modules around their nodes: `torch.export.unflatten` makes a module with submodules that is equal."""

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.conformance.pytorch import programs

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not programs.PYTHON, reason="GRAPHPORT_PYTHON_TORCH names no Python that has torch"),
]
COUNT = 60
MODULES = ("", "/a", "/a/a.0", "/a/a.1", "/a/a.0/d", "/b/c", "/b/c/c.3", "/layers.0", "/layers.0/conv", "/forward")


def network(draw):
    """A model whose nodes are in modules, which others interrupt."""
    names, nodes, weights, module = ["x"], [], [], ""
    for index in range(draw.randint(3, 25)):
        module = draw.choice(MODULES) if index % 3 == 0 else module
        op_type = draw.choice(["Add", "MatMul", "Relu", "Split"])
        read, result = [draw.choice(names)], f"v{index}"
        if op_type in ("Add", "MatMul") and draw.random() < 0.5:
            weight = f"{module[1:].replace('/', '.')}.w{index}" if draw.random() < 0.3 else f"onnx::MatMul_{index}"
            weights.append(
                numpy_helper.from_array(draw.elements.standard_normal((4, 4)).astype(np.float32) / 2, weight)
            )
            read.append(draw.choice(weights).name)
        elif op_type in ("Add", "MatMul"):
            read.append(draw.choice(names))
        if op_type == "Split":
            parts = [f"{result}a", f"{result}b"]
            nodes.append(helper.make_node(op_type, read, parts, name=f"{module}/Split_{index}", num_outputs=2, axis=0))
            op_type, read, module = "Concat", parts[::-1], draw.choice(MODULES)
        attributes = {"axis": 0} if op_type == "Concat" else {}
        nodes.append(helper.make_node(op_type, read, [result], name=f"{module}/{op_type}_{index}", **attributes))
        names.append(result)
    results = draw.sample(names[1:], min(3, len(names) - 1))
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in each] for each in (["x"], results)
    ]
    graph = helper.make_graph(nodes, "network", *infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("form", ["unflatten", "code"])
def test_modules_with_submodules_match_the_program(tmp_path, form):
    expected = {}
    for seed in range(COUNT):
        draw = random.Random(seed)
        draw.elements = np.random.default_rng(seed)
        onnx.save(network(draw), tmp_path / f"{seed}.onnx")
        x = draw.elements.standard_normal((4, 4)).astype(np.float32)
        model = gp.load(tmp_path / f"{seed}.onnx")
        gp.save(model, tmp_path / f"{seed}.pt2", code=form == "code")
        programs.store(tmp_path / f"{seed}.pt2", [x])
        expected[seed] = list(gp.run(model, {"x": x}).values())
    programs.run_all(tmp_path, form)
    for seed, outputs in expected.items():
        found = programs.outcome(tmp_path / f"{seed}.pt2")
        assert not found.error, (seed, found.error)
        for one, other in zip(found.outputs, outputs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3, err_msg=str(seed))
