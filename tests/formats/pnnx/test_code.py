"""A model as Python: what `--code` writes is run with PyTorch in tests/conformance/pnnx; here it is read."""

from __future__ import annotations

import ast
import math

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.python_code import CodeError
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.formats.ncnn.container.python_code import code_of as ncnn_code
from graphport.formats.pnnx.container.code_expressions import expression_code
from graphport.ir.graph import Graph
from tests.models import model, node, write_onnx

RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def python(text, *operands, arities=ARITIES):
    tree = parse(text, arities).tree
    found = expression_code(tree, [ast.Name(each) for each in operands], [False] * len(operands), lambda each: each)
    return ast.unparse(found.tree)


def small(name="w"):
    constants = {name: numbers(4, 3, 3, 3), "k": numbers(4, 5), "c": numbers(5)}
    nodes = [
        node("Conv", ["x", name], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r"]),
        node("GlobalAveragePool", ["r"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "k", "c"], ["y"]),
    ]
    return model(nodes, [("x", [1, 3, 6, 6])], [("y", [1, 5])], constants)


def code(tmp_path, proto):
    gp.save(gp.from_onnx(proto), tmp_path / "net.pnnx.param", code=True)
    return (tmp_path / "net_pnnx.py").read_text()


def test_layers_are_modules_with_their_weights(tmp_path):
    text = code(tmp_path, small())
    assert "nn.Conv2d(in_channels=3, out_channels=4, kernel_size=(3, 3)" in text
    assert "F.relu(" in text
    assert ".weight.data = weight(archive, " in text
    tree = ast.parse(text)
    (made,) = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    assert [each.name for each in made.body if isinstance(each, ast.FunctionDef)] == ["__init__", "forward"]


def test_every_name_is_bound_before_it_is_read(tmp_path):
    tree = ast.parse(code(tmp_path, small()))
    (forward,) = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == "forward"]
    known = {each.arg for each in forward.args.args} | {"torch", "nn", "F", "float"}
    for statement in forward.body:
        read = {
            each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        }
        assert read <= known
        known |= {
            each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }


@pytest.mark.parametrize("name", ['"""; import os; x="""', "'); import os; ('", "a\nimport os", "import", "self", "F"])
def test_what_a_model_is_called_is_never_run(tmp_path, name):
    proto = small(name)
    proto.graph.name = name
    for each in proto.graph.node:
        each.name = f"{name}{each.op_type}"
    proto.graph.node[-1].output[0] = proto.graph.output[0].name = name + "y"
    tree = ast.parse(code(tmp_path, proto))
    imported = [alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names]
    assert sorted(imported) == ["torch", "torch.nn.functional", "zipfile"]


def test_an_op_type_of_another_program_is_never_run(tmp_path):
    gp.save(gp.from_onnx(small()), tmp_path / "net.pnnx.param")
    path = tmp_path / "net.pnnx.param"
    path.write_text(path.read_text().replace("F.relu ", "os.system "))
    with pytest.raises(gp.DiagnosticError, match="PNNX0305"):
        gp.save(gp.load(path, raw=True), tmp_path / "again.pnnx.param", code=True)
    assert not (tmp_path / "again.pnnx.param").exists()


@pytest.mark.parametrize(
    "text",
    [
        *("add(mul(@0,2),@1)", "sub(1.0,div(@0,@1))", "pow(@0,2)", "sqrt(abs(@0))", "mul(size(@0,0),3)"),
        *("floor_divide(size(@0,1),2)", "maximum(@0,@1)", "max(size(@0,0),7)", "floor_divide(@0,0.5)"),
    ],
)
def test_expressions_compute_what_they_say(text):
    class Array(np.ndarray):
        def size(self, axis):  # pyright: ignore[reportIncompatibleMethodOverride]
            return self.shape[axis]

    x, y = (numbers(2, 3).view(Array) for _ in "xy")
    found = python(text, "x", "y")
    value = eval(found, {"x": x, "y": y, "torch": np, "float": float})  # noqa: S307  our own text
    names = {"abs": np.abs, "sqrt": np.sqrt, "maximum": np.maximum, "max": max, "pow": np.power}
    names |= {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floor_divide": np.floor_divide}
    names |= {"size": lambda a, axis: a.shape[axis], "x": np.asarray(x), "y": np.asarray(y)}
    expected = eval(text.replace("@0", "x").replace("@1", "y"), names)  # noqa: S307  of the table above
    np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-6)


def test_numbers_without_digits_are_written():
    assert eval(python("add(@0,inf)", "x"), {"x": 1.0, "float": float}) == math.inf  # noqa: S307  our own text


def test_a_function_that_python_has_not_is_refused():
    with pytest.raises(CodeError):
        python("logaddexp(@0,@1,@0)", "x", "y", arities={"logaddexp": (3,)})


def test_ncnn_lies_beside_with_what_runs_it(tmp_path):
    pytest.importorskip("ncnn")
    report = gp.convert(write_onnx(tmp_path / "net.onnx", small()), tmp_path / "net.pnnx.param", code=True)
    assert report.passed
    names = {"net.pnnx.param", "net.pnnx.bin", "net_pnnx.py", "net.ncnn.param", "net.ncnn.bin", "net_ncnn.py"}
    assert names <= {each.name for each in tmp_path.iterdir()}
    scope = {"__file__": str(tmp_path / "net_ncnn.py"), "__name__": "net"}
    exec((tmp_path / "net_ncnn.py").read_text(), scope)  # noqa: S102  our own text
    x = numbers(1, 3, 6, 6)
    (found,) = scope["run"](x)
    expected = gp.run(gp.load(tmp_path / "net.onnx"), {"x": x}, backend="reference")["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_names_of_ncnn_blobs_are_literals(tmp_path):
    graph = Graph("net")
    names = ["a'\"b", "\\", "{x}", "\u202e\ud800", '"""; import os']
    for name in names:
        graph.add_input(name, TensorFact(DType.FLOAT32, ()))
    tree = ast.parse(ncnn_code("a'{}\n", graph))
    assigned = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
    assert ast.literal_eval(assigned["INPUTS"]) == tuple(names)
    imported = [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(each) for each in imported] == ["from pathlib import Path", "import ncnn", "import numpy as np"]
