"""Integers, choices and sums of products in texts of the standard, which computes real numbers alone."""

from __future__ import annotations

import nnef
import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from graphport.core.diagnostics import Severity

RANDOM = np.random.default_rng(5)
I64, F32 = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def model(nodes, inputs, outputs, constants=()) -> gp.Model:
    given = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    told = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    return gp.from_onnx(helper.make_model(helper.make_graph(nodes, "net", given, told, stored), ir_version=9))


ARITHMETIC = {
    "sum": ("Add", {}),
    "difference": ("Sub", {}),
    "product": ("Mul", {}),
    "quotient": ("Div", {}),
    "remainder": ("Mod", {}),
    "remainder of C": ("Mod", {"fmod": 1}),
    "largest": ("Max", {}),
    "is less": ("Less", {}),
    "is at least": ("GreaterOrEqual", {}),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_integers_are_computed_as_reals_and_a_warning_states_so(tmp_path, name):
    operator, attributes = ARITHMETIC[name]
    a, b = np.array([7, -7, 8, -9, 100, 0]), np.array([3, 3, -4, -2, 7, 5])
    kind = onnx.TensorProto.BOOL if "is" in name.split() else I64
    node = helper.make_node(operator, ["a", "b"], ["y"], **attributes)
    net = model([node], {"a": (I64, [6]), "b": (I64, [6])}, {"y": kind})
    findings = gp.save(net, tmp_path / "m", format="nnef", flavour="khronos")
    is_compared = kind != I64
    codes = [each.code for each in findings if each.severity is Severity.WARNING]
    assert codes == ([] if is_compared or operator == "Mod" else ["NNEF0775"])
    nnef.load_graph(str(tmp_path / "m"))
    wanted = gp.run(net, {"a": a, "b": b}, backend="reference")["y"]
    found = gp.run(gp.load(tmp_path / "m"), {"a": a, "b": b}, backend="reference")["y"]
    np.testing.assert_array_equal(found, wanted)


def test_what_tract_computes_of_integers_is_not_changed(tmp_path):
    net = model([helper.make_node("Mul", ["a", "a"], ["y"])], {"a": (I64, [2])}, {"y": I64})
    assert gp.save(net, tmp_path / "m", format="nnef", flavour="tract") == []
    assert "cast" not in (tmp_path / "m" / "graph.nnef").read_text()


X = RANDOM.normal(size=(3, 5)).astype(np.float32)
CHOICES = {
    "the largest": ([helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=1)], {"k": np.array([2])}),
    "the least": ([helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=0, largest=0)], {"k": np.array([3])}),
    "the upper triangle": ([helper.make_node("Trilu", ["x", "k"], ["y"], upper=1)], {"k": np.array(1)}),
    "the lower triangle": ([helper.make_node("Trilu", ["x"], ["y"], upper=0)], {}),
    "entries": (
        [helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)],
        {"i": np.array([[4, -1], [0, 2], [3, 3]])},
    ),
    "placed entries": (
        [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)],
        {"i": np.array([[4, -5], [1, 2]]), "u": np.array([[8, 9], [10, 11]], np.float32)},
    ),
    "added entries": (
        [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
        {"i": np.array([[0, 0, 1]]), "u": np.array([[1, 2, 3]], np.float32)},
    ),
    "infinities": ([helper.make_node("Reciprocal", ["x"], ["r"]), helper.make_node("IsInf", ["r"], ["y"])], {}),
    "remainders": ([helper.make_node("Mod", ["x", "m"], ["y"], fmod=1)], {"m": np.array(0.7, np.float32)}),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_written_to_both_readers(tmp_path, name):
    nodes, constants = CHOICES[name]
    outputs = {each: 0 for node in nodes for each in node.output if each in ("y", "i")}
    kinds = {"y": onnx.TensorProto.BOOL if name == "infinities" else F32, "i": I64}
    x = np.where(np.abs(X) < 0.3, 0, X).astype(np.float32) if name == "infinities" else X
    hold(tmp_path, model(nodes, {"x": (F32, [3, 5])}, {each: kinds[each] for each in outputs}, constants), {"x": x})


EQUATIONS = {
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bqhd,bkhd->bhqk": [(1, 3, 2, 4), (1, 5, 2, 4)],
    "bi,ij,bj->b": [(2, 3), (3, 4), (2, 4)],
    "ij,kl->ljik": [(2, 3), (2, 2)],
    "abc->ca": [(2, 3, 4)],
    "i,i": [(4,), (4,)],
    "...ij,jk->...ik": [(2, 2, 3, 4), (4, 5)],
    "abcd,ecbd->aeb": [(2, 3, 2, 2), (3, 2, 3, 2)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_of_products_are_products_of_matrices(tmp_path, equation):
    shapes = EQUATIONS[equation]
    names = "xyz"[: len(shapes)]
    node = helper.make_node("Einsum", [*names], ["out"], equation=equation)
    net = model([node], {name: (F32, shape) for name, shape in zip(names, shapes, strict=True)}, {"out": F32})
    arrays = {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in zip(names, shapes, strict=True)}
    hold(tmp_path, net, arrays)
    wanted = np.einsum(equation, *arrays.values())
    np.testing.assert_allclose(gp.run(gp.load(tmp_path / "m"), arrays)["out"], wanted, rtol=1e-4, atol=1e-5)


def hold(folder, net, arrays):
    """tract computes of a text for both readers what the model does."""
    gp.save(net, folder / "m", format="nnef", flavour="both")
    nnef.load_graph(str(folder / "m"))
    wanted = gp.run(net, arrays, backend="reference")
    found = gp.run(gp.load(folder / "m"), arrays, backend="tract")
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_padded", [False, True])
def test_zeros_at_the_border_of_a_maximum_are_chosen_by_every_runtime(tmp_path, is_padded):
    padding = "(1, 1)" if is_padded else "(0, 0)"
    (tmp_path / "graph.nnef").write_text(
        "version 1.0;\ngraph net( x ) -> ( y )\n{\n    x = external(shape = [1, 1, 4, 4]);\n"
        f"    y = max_pool(x, size = [1, 1, 3, 3], padding = [(0, 0), (0, 0), {padding}, {padding}], border = 'constant');\n}}\n"
    )
    x = np.full((1, 1, 4, 4), -1, np.float32)
    wanted, found = (gp.run(gp.load(tmp_path), {"x": x}, backend=name)["y"] for name in ("reference", "onnxruntime"))
    np.testing.assert_array_equal(found, wanted)
    assert bool((found == 0).any()) is is_padded
