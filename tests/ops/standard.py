"""ONNX's own reference implementation as the judge of pages, for element types that ONNX Runtime has no kernel for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.ops.declare import OPSET, OpDef
from tests.ops.oracle import check_shapes, compare, run_operator

Array = np.ndarray[Any, Any]


def check_by_standard(
    op_def: OpDef,
    inputs: Sequence[Array | None],
    *,
    outputs: int = 1,
    tolerance: float | None = None,
    opset: int = OPSET,
    **attributes: Any,
) -> list[Array]:
    """Hold a page's first results against the reference implementation, and its shape rule against them."""
    found = run_operator(op_def, inputs, **attributes)[:outputs]
    names = ["" if x is None else f"i{number}" for number, x in enumerate(inputs)]
    said = {key: _said(value) for key, value in attributes.items() if value is not None}
    node = helper.make_node(op_def.name, names, [f"o{number}" for number in range(outputs)], **said)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    results = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "one", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {name: x for name, x in zip(names, inputs, strict=True) if x is not None}
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, feeds)
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        compare(a, np.asarray(b), tolerance=tolerance, what=f"{op_def.name}: result {number}")
    check_shapes(op_def, inputs, found, **attributes)
    return found


def _said(value: Any) -> Any:
    if isinstance(value, DType):
        return helper.np_dtype_to_tensor_dtype(value.numpy)
    if isinstance(value, Storage):
        return onnx.numpy_helper.from_array(value.numpy())
    return list(value) if isinstance(value, tuple) else value
