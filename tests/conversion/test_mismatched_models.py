"""Models whose operands or results contradict their operators end in a diagnostic in every writer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.ops import registry
from tests.passes.cases import info, model


def refusal(proto):
    """The codes of the diagnostics that a model is refused with."""
    with pytest.raises(DiagnosticError) as caught:
        gp.from_onnx(proto)
    return {each.code for each in caught.value.diagnostics if each.is_error}


def test_results_that_a_format_lacks_are_refused(tmp_path):
    nodes = [helper.make_node("BatchNormalization", ["x", "s", "s", "s", "v"], ["y", "running_mean"])]
    constants = {"s": np.zeros(3, np.float32), "v": np.ones(3, np.float32)}
    proto = model(nodes, [info("x", [1, 3, 4, 4])], [info("y", None), info("running_mean", None)], constants, opset=20)
    with pytest.raises(DiagnosticError, match="LEG0002"):
        gp.save(gp.from_onnx(proto), tmp_path / "m.param", format="ncnn")


def test_a_split_into_more_results_than_it_has_is_refused():
    nodes = [helper.make_node("Split", ["x"], ["a", "b", "c"], num_outputs=2)]
    outputs = [info(name, None) for name in "abc"]
    assert refusal(model(nodes, [info("x", [6])], outputs, {}, opset=20)) == {"SHAPE0001"}


@pytest.mark.parametrize(("axis", "tiles"), [([0, 1], [2]), ([0], [2, 3]), ([5], [2])])
def test_tile_1_with_non_scalar_operands_is_a_diagnostic(tmp_path, axis, tiles):
    nodes = [helper.make_node("Tile", ["x", "t", "a"], ["y"])]
    constants = {"t": np.array(tiles, np.int64), "a": np.array(axis, np.int64)}
    proto = model(nodes, [info("x", [2, 3])], [info("y", None)], constants, opset=5)
    with pytest.raises(DiagnosticError) as caught:
        gp.save(gp.from_onnx(proto), tmp_path / "m.xml")
    assert not any(each.code.startswith("BUG") for each in caught.value.diagnostics)


def test_random_numbers_of_an_infinite_range_are_a_diagnostic():
    lowest, highest = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["y"], low=lowest, high=highest)]
    limits = {"low": -1.7e308, "high": 1.7e308}
    found = gp.from_onnx(model(nodes, [info("x", [2])], [info("y", None, TensorProto.FLOAT)], {}, opset=20))
    for node in found.graph:
        node.attributes.update(limits)
    with pytest.raises(DiagnosticError, match="RUN0005"):
        gp.run(found, {"x": np.zeros(2, np.float32)}, backend="reference")


def test_an_import_rule_that_fails_is_no_fault_of_the_file(tmp_path, monkeypatch):
    """An exception of a rule is an internal error, whatever its type; a rule checks what it reads from a file."""
    path = tmp_path / "m.xml"
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])], {}, opset=20)
    gp.save(gp.from_onnx(proto), path)
    for error in (ValueError, TypeError, KeyError, IndexError, ZeroDivisionError, AttributeError):

        def fail(*_operands, _error=error, **_attributes):
            raise _error("a fault of the rule")

        with monkeypatch.context() as patch:
            patch.delenv("GRAPHPORT_DEBUG", raising=False)
            patch.setattr(registry, "lowering", lambda *_given, _fail=fail: _fail)
            codes = {each.code for each in gp.check(path)}
        assert "BUG0001" in codes
        assert "SHAPE0001" not in codes


CONTRIB = {
    "an attribute that is called like an operand": (
        helper.make_node("ExpandDims", ["x"], ["y"], domain="com.microsoft", axis=1.0),
        {},
    ),
    "weights without columns": (
        helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=0, N=0, block_size=32),
        {"q": np.zeros(0, np.uint8), "s": np.zeros(0, np.float32)},
    ),
    "axes that repeat": (
        helper.make_node("ExpandDims", ["x", "axes"], ["y"], domain="com.microsoft"),
        {"axes": np.zeros(2, np.int32)},
    ),
}


@pytest.mark.parametrize("name", CONTRIB)
@pytest.mark.parametrize("target", ["m.xml", "m.param", "m.tflite", "m.nnef.tgz"])
def test_contrib_operators_with_wrong_operands_are_refused(tmp_path, name, target):
    made, constants = CONTRIB[name]
    proto = model([made], [info("x", [2, 3])], [info("y", None)], constants, opset=20)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(DiagnosticError) as caught:
        gp.save(gp.from_onnx(proto), tmp_path / target)
    assert not any(each.code.startswith("BUG") for each in caught.value.diagnostics)
