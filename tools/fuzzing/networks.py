"""ONNX models that stress readers: nested bodies, functions that call each other, extreme dims, long chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuzzing.damages import varint

if TYPE_CHECKING:
    import onnx

OF_AN_EXTENT = (
    *("ConstantOfShape", "Range", "Expand", "Tile", "Reshape", "Pad", "OneHot", "Slice", "Gather", "Unsqueeze", "TopK"),
    *("Split", "Resize", "Trilu", "HannWindow", "Upsample", "CumSum", "Squeeze", "Dims", "Conv", "MaxPool", "Concat"),
)
"""Operators whose result or window size is an operand or attribute; `Dims` stands for the shape of an input."""
_OPERANDS = {
    "Range": "z k k",
    "OneHot": "one k v",
    "Slice": "x n n one",
    "Resize": "x   n",
    "HannWindow": "k",
    "ConstantOfShape": "n",
    "Trilu": "x k",
    "Conv": "x w",
    "MaxPool": "x",
    "Dims": "x",
    "Concat": "x x",
    "Upsample": "x",
}


def field(number: int, data: bytes) -> bytes:
    """Encode a protobuf field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def model(nodes: list[tuple[str, str, str]]) -> bytes:
    """Return a model of the nodes (op type, operand names, result names; one letter each), from `x` to `y`."""
    from onnx import helper

    made = [helper.make_node(op_type, list(given), list(result)) for op_type, given, result in nodes]
    return _model(made, ("x", "y"), (2, 3))


def chain(op_type: str, given: str, count: int) -> bytes:
    """Return a chain of `count` nodes; `given.format(i)` contains the operands of node i."""
    from onnx import helper

    nodes = [helper.make_node(op_type, given.format(i).split(), [f"a{i + 1}"]) for i in range(count)]
    return _model(nodes, ("a0", f"a{count}"), (1, 3, 4, 4))


def nested_bodies(depth: int) -> bytes:
    """Return a model with `depth` nested If branches, encoded here because the protobuf library limits the depth."""
    node = field(1, b"x") + field(2, b"z") + field(4, b"Relu")
    inner = field(1, node) + field(2, b"b") + field(12, field(1, b"z"))
    for _ in range(depth):
        body = field(1, b"then_branch") + field(6, inner) + varint(20 << 3) + varint(5)
        node = field(1, b"c") + field(2, b"z") + field(4, b"If") + field(5, body)
        inner = field(1, node) + field(2, b"b") + field(12, field(1, b"z"))
    return varint(8) + varint(10) + field(8, varint(16) + varint(21)) + field(7, inner)


def functions(count: int, calls: int, *, cyclic: bool) -> bytes:
    """Return a model with `count` functions, each of which calls the next one `calls` times."""
    from onnx import helper

    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    made: list[onnx.FunctionProto] = []
    for at in range(count):
        target = (at + 1) % count if cyclic else at + 1
        body = [helper.make_node("Relu", ["x"], ["y"])]
        if target != count:
            ends = ["x", *(f"t{call}" for call in range(calls - 1)), "y"]
            body = [helper.make_node(f"F{target}", [ends[k]], [ends[k + 1]], domain="f") for k in range(calls)]
        made.append(helper.make_function("f", f"F{at}", ["x"], ["y"], body, opsets))
    return _model([helper.make_node("F0", ["x"], ["y"], domain="f")], ("x", "y"), (2, 3), functions=made)


def of_extent(op_type: str, extent: int) -> bytes:
    """Return a model of one node whose size is `extent`."""
    from onnx import TensorProto, helper

    numbers = [extent, extent] if op_type in ("Tile", "Reshape") else [extent]
    integers, reals = TensorProto.INT64, TensorProto.FLOAT
    held = [
        helper.make_tensor("n", integers, [len(numbers)], numbers),
        helper.make_tensor("k", integers, [], [extent]),
        helper.make_tensor("one", integers, [1], [1]),
        helper.make_tensor("z", integers, [], [0]),
        helper.make_tensor("v", reals, [2], [0.0, 1.0]),
        helper.make_tensor("w", reals, [1, 1, 1, 1], [1.0]),
    ]
    operands = _OPERANDS.get(op_type, "x n").split(" ")
    options: dict[str, dict[str, Any]] = {
        "Conv": {"strides": [1, 1], "dilations": [1, max(extent, 1)], "pads": [0, extent, 0, extent]},
        "MaxPool": {"kernel_shape": [1, extent], "auto_pad": "SAME_UPPER"},
        "Concat": {"axis": extent},
        "Upsample": {"scales": [1.0, float(extent)]},
    }
    shape = (1, 1, 4, 4) if op_type in ("Conv", "MaxPool") else (extent, extent) if op_type == "Dims" else (2, 3)
    node = helper.make_node("Relu" if op_type == "Dims" else op_type, operands, ["y"], **options.get(op_type, {}))
    used = [each for each in held if each.name in operands]
    return _model([node], ("x", "y"), shape, weights=used, opset=7 if op_type == "Upsample" else 21, is_open=True)


def _model(
    nodes: list[onnx.NodeProto],
    ends: tuple[str, str],
    shape: tuple[int, ...],
    *,
    is_open: bool = False,
    weights: list[onnx.TensorProto] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    opset: int = 21,
) -> bytes:
    from onnx import TensorProto, helper

    given = helper.make_tensor_value_info(ends[0], TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info(ends[1], TensorProto.FLOAT, None if is_open else shape)
    graph = helper.make_graph(nodes, "g", [given], [made], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    whole = helper.make_model(graph, opset_imports=opsets, functions=functions or [], ir_version=10)
    return whole.SerializeToString()
