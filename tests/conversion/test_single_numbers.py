"""Operators of single numbers, which have no axes: every format writes them or says why not."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, defs, helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

_ENDINGS = ("onnx", "xml", "tflite", "nnef", "nnef.tgz", "param", "pnnx.param", "prototxt")


def operators() -> list[str]:
    """Of ONNX, those whose attributes that have to be there are integers."""
    found = []
    for schema in defs.get_all_schemas():
        needed = [each.type for each in schema.attributes.values() if each.required]
        if not schema.domain and all(kind == defs.OpSchema.AttrType.INT for kind in needed):
            found.append(schema.name)
    return sorted(set(found))


def model(operator: str) -> onnx.ModelProto:
    schema = defs.get_schema(operator)
    single = defs.OpSchema.FormalParameterOption.Single
    names = [f"x{place}" for place in range(max(sum(each.option == single for each in schema.inputs), 1))]
    attributes = dict.fromkeys((name for name, each in schema.attributes.items() if each.required), 0)
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attributes)],
        "single",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("ending", _ENDINGS)
def test_scalars_are_written_or_refused(ending, tmp_path):
    refused, told = [], ""
    for operator in operators():
        try:
            gp.save(gp.from_onnx(model(operator)), tmp_path / f"m.{ending}")
        except DiagnosticError as error:
            refused.append(operator)
            told += str(error)
    assert "BUG" not in told
    # A blob of ncnn has an axis at least.
    assert (len(refused) == len(operators())) is (ending == "param")
