"""Programs as Python: the generated modules are read here, and run with PyTorch in tests/conformance/pytorch."""

import ast
import json
import random
import struct

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

import graphport as gp
from graphport.core.python_code import CodeError
from graphport.formats.pytorch.pt2.module_code import code_of
from tests.draws import times
from tests.formats.pnnx.test_code_injection import HOSTILE
from tests.formats.pytorch.pt2.module_rules import check
from tests.formats.pytorch.pt2.test_writer import document, floats, model


def module_of(made, folder, **options):
    """The Python module of a model."""
    onnx.save(made, folder / "source.onnx")
    gp.save(gp.load(folder / "source.onnx"), folder / "net.pt2", code=True, **options)
    text = (folder / "net_module.py").read_text()
    return text, check(text)


def layers(count):
    """Matrix products with a sum and a rectifier, a module for each."""
    nodes, weights, value = [], [], "x"
    for index in range(count):
        name = f"layers.{index}"
        weights += [(f"{name}.weight", floats(4, 4)), (f"{name}.bias", floats(4))]
        nodes += [
            h.make_node("MatMul", [value, f"{name}.weight"], [f"m{index}"], name=f"/{name}/MatMul"),
            h.make_node("Add", [f"m{index}", f"{name}.bias"], [f"a{index}"], name=f"/{name}/Add"),
            h.make_node("Relu", [f"a{index}"], [f"y{index}"], name=f"/{name}/act/Relu"),
        ]
        value = f"y{index}"
    return model(nodes, [("x", T.FLOAT, [2, 4])], [(value, T.FLOAT, [2, 4])], weights)


def test_equal_modules_share_a_class(tmp_path):
    text, tree = module_of(layers(5), tmp_path)
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["Act", "Layers", "Model"]
    assert text.count("self.get_submodule('layers.") == 5
    assert "self.weight = nn.Parameter(torch.empty((4, 4), dtype=torch.float32))" in text


def test_weights_are_a_safetensors_file(tmp_path):
    made = layers(2)
    module_of(made, tmp_path)
    data = (tmp_path / "net_module.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    for weight in made.graph.initializer:
        entry = entries.pop(weight.name)
        start, stop = (8 + length + offset for offset in entry["data_offsets"])
        found = np.frombuffer(data[start:stop], np.float32).reshape(entry["shape"])
        assert np.array_equal(found, onnx.numpy_helper.to_array(weight))
    assert entries == {}


def test_branches_and_loops_are_statements_of_python(tmp_path):
    def value(name):
        return h.make_tensor_value_info(name, T.FLOAT, [2])

    branches = {
        f"{name}_branch": h.make_graph([h.make_node(op, ["x"], [name])], name, [], [value(name)])
        for name, op in (("then", "Neg"), ("else", "Exp"))
    }
    scalars = [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("c", T.BOOL, [])]
    inside = [h.make_node("Identity", ["c"], ["again"]), h.make_node("Add", ["s", "s"], ["t"])]
    again = h.make_tensor_value_info("again", T.BOOL, [])
    body = h.make_graph(inside, "body", [*scalars, value("s")], [again, value("t")])
    nodes = [
        h.make_node("If", ["p"], ["b"], **branches),
        h.make_node("Loop", ["n", "", "b"], ["y"], body=body),
    ]
    inputs = [("p", T.BOOL, []), ("n", T.INT64, []), ("x", T.FLOAT, [2])]
    text, tree = module_of(model(nodes, inputs, [("y", T.FLOAT, [2])]), tmp_path)
    kinds = {type(node) for node in ast.walk(tree)}
    assert {ast.While, ast.IfExp} <= kinds
    assert "while_loop" not in text


def test_hostile_names_are_escaped_in_module_code(tmp_path):
    for seed in range(times(60)):
        rng = random.Random(seed)
        names = [f"{rng.choice(HOSTILE)}{index}" for index in range(8)]
        names = [name.encode("utf-8", "replace").decode() for name in names]
        x, w, b, m, a, y, graph_name, scope = names
        nodes = [
            h.make_node("MatMul", [x, f"{scope}.{w}"], [m], name=f"/{scope}/{w}/MatMul"),
            h.make_node("Add", [m, b], [a], name=f"/{y}/Add"),
            h.make_node("Relu", [a], [y], name=f"/{a}.0/{a}.0.{x}/Relu"),
        ]
        made = model(
            nodes, [(x, T.FLOAT, [2, 4])], [(y, T.FLOAT, [2, 4])], [(f"{scope}.{w}", floats(4, 4)), (b, floats(4))]
        )
        made.graph.name = graph_name
        module_of(made, tmp_path)


def test_a_target_that_is_no_operator_is_refused(tmp_path):
    onnx.save(layers(1), tmp_path / "source.onnx")
    gp.save(gp.load(tmp_path / "source.onnx"), tmp_path / "net.pt2")
    for target in ("torch.hub.load", "torch.ops.load_library", "torch.ops.aten.nothing.default", "os.system"):
        program = document(tmp_path / "net.pt2")
        program["graph_module"]["graph"]["nodes"][0]["target"] = target
        with pytest.raises(CodeError, match="is not an operator"):
            code_of(program, "net", "net.safetensors")


def test_code_with_custom_operators_is_refused(tmp_path):
    nodes = [h.make_node("Fancy", ["x"], ["y"], domain="my.ops")]
    made = model(nodes, [("x", T.FLOAT, [2, 4])], [("y", T.FLOAT, [2, 4])])
    made.opset_import.append(h.make_opsetid("my.ops", 1))
    with pytest.raises(gp.DiagnosticError, match=r"my_ops_Fancy\.default is not an operator") as error:
        module_of(made, tmp_path, allow_custom=True)
    assert error.value.diagnostics[0].code == "PT0107"
    assert not list(tmp_path.glob("net*"))
