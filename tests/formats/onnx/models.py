"""Small models for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

DATA = Path(__file__).parent / "data"


def tensor(name: str, shape: Any = ("N",), dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto] | None = None,
    outputs: list[ValueInfoProto] | None = None,
    *,
    opset: int = 17,
    ir_version: int = 8,
    imports: dict[str, int] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    **graph: Any,
) -> ModelProto:
    """Return a model; by default `x` is the input and `y` the output."""
    body = helper.make_graph(
        nodes, "g", [tensor("x")] if inputs is None else inputs, [tensor("y")] if outputs is None else outputs, **graph
    )
    versions = {"": opset} | (imports or {})
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(body, opset_imports=opsets, ir_version=ir_version, functions=functions or [])


def weights(name: str, array: np.ndarray[Any, Any]) -> TensorProto:
    return numpy_helper.from_array(array, name)


def plain(message: Any) -> Any:
    """Return a normalized copy: elements in `raw_data`, no empty strings, no absent trailing values."""
    twin = type(message).FromString(message.SerializeToString())
    pending = [twin]
    while pending:
        each = pending.pop()
        for field, value in each.ListFields():
            if field.message_type is not None:
                pending.extend(value if field.is_repeated else [value])
            elif (value == "" and field.name != "dim_param") or (field.name, value) == ("model_version", 0):
                each.ClearField(field.name)
        if isinstance(each, TensorProto) and not each.external_data and each.data_type != TensorProto.STRING:
            raw = numpy_helper.from_array(numpy_helper.to_array(each)).raw_data
            for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                each.ClearField(name)
            each.raw_data = raw
        if isinstance(each, NodeProto):
            for names in (each.input, each.output):
                while names and not names[-1]:
                    del names[-1]
    return twin
