"""Formats without open extents: what is refused names what is to be bound, and then it is written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.options import WriteOptions
from tests.models import model, node

TARGETS = ["ncnn", "nnef"]


def refused(loaded, folder, format):
    options: WriteOptions = {"flavour": "khronos"} if format == "nnef" else {}
    with pytest.raises(DiagnosticError) as caught:
        gp.save(
            loaded,
            folder / f"out.{format}.param" if format != "nnef" else folder / "out.nnef",
            format=format,
            **options,
        )
    return caught.value.diagnostics


def rows() -> onnx.ModelProto:
    """y = x in rows of H entries, and of as many as it has columns; H is another extent of the input."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "two", "three", "zero"], ["high"]),
        node("Concat", ["high", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    numbers = {name: np.array([n], np.int64) for name, n in {"zero": 0, "two": 2, "three": 3, "rest": -1}.items()}
    return model(nodes, [("x", ["N", 3, "H", "W"])], [("y", ["H", "rest"])], numbers)


def enlarged():
    """An image enlarged by 1.5: coordinates of an ncnn layer follow from the sizes, which the file rounds down."""
    scales = {"scales": np.array([1, 1, 1.5, 1.5], np.float32)}
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    return model(nodes, [("x", ["N", 3, "H", "W"])], [("y", None)], scales)


@pytest.mark.parametrize("format", TARGETS)
def test_a_refusal_names_the_extents_to_bind(tmp_path, format):
    onnx.save(enlarged() if format == "ncnn" else rows(), tmp_path / "m.onnx")
    helps = {finding.help for finding in refused(gp.load(tmp_path / "m.onnx"), tmp_path, format)}
    (asked,) = {text for text in helps if text is not None and "--input x=1x3x224x224" in text}
    bound, _, other = asked.partition("; or ")
    assert bound == "set the symbolic dims, for example --input x=1x3x224x224"
    assert other == ("--flavour tract, which supports it" if format == "nnef" else "")


def counted():
    """The places of columns added to them, for which ncnn has no word while their number is open, and a choice by data."""
    numbers = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "two": np.array(2),
        "first": np.array([0], np.int64),
    }
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["wide"]),
        node("Add", ["wide", "wide"], ["end"]),
        node("Range", ["zero", "end", "two"], ["places"]),
        node("Unsqueeze", ["places", "first"], ["row"]),
        node("Cast", ["row"], ["real"], to=onnx.TensorProto.FLOAT),
        node("Add", ["x", "real"], ["y"]),
        node("NonZero", ["x"], ["found"]),
        node("Cast", ["found"], ["z"], to=onnx.TensorProto.FLOAT),
    ]
    return model(nodes, [("x", ["N", "W"])], [("y", ["N", "W"]), ("z", [2, "K"])], numbers)


def test_binding_is_proposed_for_symbolic_but_not_data_dependent_dims(tmp_path):
    onnx.save(counted(), tmp_path / "m.onnx")
    helps = {
        finding.message.split()[3]: finding.help for finding in refused(gp.load(tmp_path / "m.onnx"), tmp_path, "ncnn")
    }
    assert helps["Range"] == "set the symbolic dims, for example --input x=1x224"
    assert "bind" not in helps["NonZero"]


def test_proposed_binding_of_a_symbol_is_equal_in_all_inputs(tmp_path):
    nodes = [node("Shape", ["x"], ["shape"]), node("Expand", ["y", "shape"], ["z"])]
    proto = model(nodes, [("x", ["N", "T"]), ("y", ["T"])], [("z", ["N", "T"])])
    onnx.save(proto, tmp_path / "m.onnx")
    helps = " ".join(str(finding.help) for finding in refused(gp.load(tmp_path / "m.onnx"), tmp_path, "nnef"))
    assert "--input x=1x224 --input y=224" in helps


def test_a_refusal_names_the_flavour_that_has_op_types_for_it(tmp_path):
    whole = onnx.TensorProto.INT64
    nodes = [node("GatherND", ["x", "at"], ["y"])]
    at = onnx.helper.make_tensor_value_info("at", whole, [5, 2])
    onnx.save(model(nodes, [("x", [3, 8]), at], [("y", [5])]), tmp_path / "m.onnx")
    loaded = gp.load(tmp_path / "m.onnx")
    assert [finding.help for finding in refused(loaded, tmp_path, "nnef")] == ["--flavour tract supports it"]
    gp.save(loaded, tmp_path / "out.nnef", format="nnef", flavour="tract")


def test_no_binding_is_proposed_for_data_dependent_dims(tmp_path):
    outputs = [onnx.helper.make_empty_tensor_value_info("indices")]
    proto = model([node("NonZero", ["x"], ["indices"])], [("x", ["N", 8])], outputs)
    onnx.save(proto, tmp_path / "m.onnx")
    assert [finding.help for finding in refused(gp.load(tmp_path / "m.onnx"), tmp_path, "ncnn")] == [
        "choose another format"
    ]
