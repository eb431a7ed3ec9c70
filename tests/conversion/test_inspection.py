"""What a model holds: counts, weights, multiply-accumulates by the formula of each operator's page."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphport.conversion.inspection import inspect
from graphport.conversion.legalize import legalize
from graphport.formats import FORMATS
from graphport.formats.onnx import from_proto
from graphport.ir.verify import verify
from graphport.ops import registry
from tests.models import NNEF, model, node, perceptron, typed, write_nnef


def inspected(proto):
    graph, findings = legalize(from_proto(proto))
    assert not [finding for finding in findings if finding.is_error]
    verify(graph)
    return inspect(graph)


def ones(*shape: int, dtype: Any = np.float32):
    return np.ones(shape, dtype)


def test_a_perceptron():
    found = inspected(perceptron())
    assert found.operators == {"Gemm": 1, "MatMul": 1, "Relu": 1, "Softmax": 1}
    assert found.parameters == 4 * 5 + 5 + 5 * 3
    assert found.weight_bytes == 4 * found.parameters
    assert str(found.macs) == "35*N"
    assert {op: str(macs) for op, macs in found.macs_by_operator.items()} == {"Gemm": "20*N", "MatMul": "15*N"}
    assert found.macs_unknown == {}
    assert str(found.inputs["x"]) == "float32[N, 4]"
    assert str(found.outputs["y"]) == "float32[N, 3]"
    assert found.unsupported["nnef"] == found.unsupported["onnx"] == {}


def test_operators_are_sorted_by_frequency():
    nodes = [node("Abs", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])]
    assert list(inspected(model(nodes, [("x", [2])], [("y", [2])])).operators.items()) == [("Neg", 2), ("Abs", 1)]


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "attributes", "expected"),
    [
        # One product for each entry of the result, channel of the group and position in the kernel.
        pytest.param("Conv", [2, 4, 8, 8], [ones(6, 4, 3, 3)], {}, 2 * 6 * 6 * 6 * 4 * 9, id="Conv"),
        pytest.param("Conv", [1, 4, 8, 8], [ones(4, 1, 3, 3)], {"group": 4}, 4 * 6 * 6 * 9, id="depthwise Conv"),
        pytest.param("Conv", [1, 1, 9], [ones(1, 1, 3)], {"strides": [2]}, 4 * 3, id="Conv with strides"),
        pytest.param("ConvTranspose", [1, 3, 4, 4], [ones(3, 2, 2, 2)], {}, 3 * 16 * 2 * 4, id="ConvTranspose"),
        pytest.param(
            "ConvTranspose", [1, 4, 5], [ones(4, 1, 3)], {"group": 2}, 4 * 5 * 1 * 3, id="ConvTranspose in groups"
        ),
        pytest.param("MatMul", [5, 2, 3], [ones(3, 4)], {}, 5 * 2 * 3 * 4, id="MatMul"),
        pytest.param("MatMul", [3], [ones(3)], {}, 3, id="MatMul of vectors"),
        pytest.param("Gemm", [2, 3], [ones(3, 4)], {}, 2 * 3 * 4, id="Gemm"),
        pytest.param("Gemm", [3, 2], [ones(4, 3)], {"transA": 1, "transB": 1}, 2 * 3 * 4, id="Gemm, transposed"),
        pytest.param("Relu", [2, 3], [], {}, 0, id="nothing is accumulated"),
    ],
)
def test_multiply_accumulates(op, inputs, constants, attributes, expected):
    names = [f"c{i}" for i in range(len(constants))]
    proto = model(
        [node(op, ["x", *names], ["y"], **attributes)],
        [("x", inputs)],
        [("y", None)],
        dict(zip(names, constants, strict=True)),
    )
    assert inspected(proto).macs == expected


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("ways", [1, 2])
def test_multiply_accumulates_of_recurrent_layers(op, gates, ways):
    steps, batch, entries, hidden = 7, 2, 3, 5
    proto = model(
        [
            node(
                op,
                ["x", "w", "r"],
                ["y"],
                hidden_size=hidden,
                direction="bidirectional" if ways == 2 else "forward",
            )
        ],
        [("x", [steps, batch, entries])],
        [("y", None)],
        {"w": ones(ways, gates * hidden, entries), "r": ones(ways, gates * hidden, hidden)},
    )
    assert inspected(proto).macs == ways * steps * batch * gates * hidden * (entries + hidden)


def test_multiply_accumulates_of_integers():
    nodes = [
        node("ConvInteger", ["x", "w"], ["a"]),
        node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["b"]),
        node("MatMulInteger", ["m", "n"], ["c"]),
        node("QLinearMatMul", ["m", "s", "z", "n", "s", "z", "s", "z"], ["d"]),
    ]
    proto = model(
        nodes,
        [typed("x", [1, 2, 5], TensorProto.UINT8), typed("m", [2, 3], TensorProto.UINT8)],
        [typed("a", None, 6), typed("b", None, 2), typed("c", None, 6), typed("d", None, 2)],
        {
            "w": ones(3, 2, 2, dtype=np.uint8),
            "n": ones(3, 4, dtype=np.uint8),
            "s": np.float32(1),
            "z": np.uint8(0),
        },
    )
    assert inspected(proto).macs_by_operator == {
        "ConvInteger": 3 * 4 * 2 * 2,
        "QLinearConv": 3 * 4 * 2 * 2,
        "MatMulInteger": 2 * 4 * 3,
        "QLinearMatMul": 2 * 4 * 3,
    }


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bij,bjk->bik", [[5, 2, 3], [5, 3, 4]], 5 * 2 * 3 * 4),
        ("...ij,jk", [[7, 2, 3], [3, 4]], 7 * 2 * 3 * 4),
        ("ii->i", [[3, 3]], 0),
        ("ij,jk,kl->il", [[2, 3], [3, 4], [4, 5]], None),
    ],
)
def test_multiply_accumulates_of_einsum(equation, shapes, expected):
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = list(zip(names, shapes, strict=True))
    found = inspected(model([node("Einsum", names, ["y"], equation=equation)], inputs, [("y", None)]))
    if expected is None:
        assert found.macs_unknown == {"Einsum": 1}
    else:
        assert found.macs == expected


def test_multiply_accumulates_of_attention():
    inputs = [("q", [2, 4, 5, 8]), ("k", [2, 2, 7, 8]), ("v", [2, 2, 7, 6])]
    proto = model([node("Attention", ["q", "k", "v"], ["y"])], inputs, [("y", None)], opset=23)
    assert inspected(proto).macs == 2 * 4 * 5 * 7 * (8 + 6)


def test_macs_formulas_accept_the_operator_signature():
    for op_def in registry.op_defs().values():
        if op_def.macs is not None:
            operands = [None] * len(op_def.signature.operands)
            signature(op_def.macs).bind(None, *operands, **dict.fromkeys(op_def.signature.keywords))


def test_dynamic_dims_give_formulas():
    proto = model([node("Conv", ["x", "w"], ["y"])], [("x", ["N", 3, "H", 8])], [("y", None)], {"w": ones(4, 3, 1, 1)})
    assert str(inspected(proto).macs) == "96*H*N"


def test_nodes_of_unknown_shape_are_counted():
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["z", "w"], ["y"])]
    proto = model(nodes, [("x", [2, 3]), ("z", None)], [("h", None), ("y", None)], {"w": ones(3, 4)})
    found = inspected(proto)
    assert found.macs_by_operator == {"MatMul": 24}
    assert found.macs_unknown == {"MatMul": 1}


def test_bodies_are_counted_once_and_unused_constants_are_not():
    branches = [
        helper.make_graph(
            [node("MatMul", ["x", f"w_{name}"], [name])],
            name,
            [],
            [typed(name, [2, 4])],
            [helper.make_tensor(f"w_{name}", TensorProto.FLOAT, [3, 4], [0.0] * 12)],
        )
        for name in "ab"
    ]
    proto = model(
        [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        [("x", [2, 3]), typed("c", [], TensorProto.BOOL)],
        [("y", [2, 4])],
        {"unread": ones(1000)},
    )
    found = inspected(proto)
    assert found.operators == {"MatMul": 2, "If": 1}
    assert found.macs == 2 * 24
    assert (found.parameters, found.weight_bytes) == (24, 96)


def test_int4_weights_are_counted_packed():
    nodes = [node("DequantizeLinear", ["w", "s"], ["y"])]
    proto = model(nodes, [], [("y", None)], {"s": np.float32(1)}, opset=21)
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [5], [1, 2, 3, 4, 5]))
    found = inspected(proto)
    assert (found.parameters, found.weight_bytes) == (6, 3 + 4)


def test_shapes_and_axes_are_no_parameters():
    nodes = [node("Reshape", ["x", "s"], ["h"]), node("Add", ["h", "b"], ["y"])]
    constants = {"s": np.array([3, 2]), "b": np.array([1, 2], np.float32)}
    found = inspected(model(nodes, [("x", [2, 3])], [("y", None)], constants))
    assert (found.parameters, found.weight_bytes) == (2, 8)


def test_parameters_without_data_are_counted_by_declared_shape(tmp_path):
    path = tmp_path / "text.nnef"
    path.write_text(NNEF)
    graph, _ = legalize(FORMATS["nnef"].read(path)[0])
    found = inspect(graph, "nnef", {"edition": "final"})
    assert (found.parameters, found.weight_bytes) == (57, 228)
    assert (found.format, found.versions) == ("nnef", {"edition": "final"})


def test_parameters_that_are_shared_count_once(tmp_path):
    text = NNEF.replace(
        "y = relu(h);", "w2 = variable(shape = [3, 2, 3, 3], label = 'conv/w');\n    y = conv(x, w2, b);"
    )
    graph, _ = legalize(FORMATS["nnef"].read(write_nnef(tmp_path / "small", text))[0])
    found = inspect(graph)
    assert found.operators["Conv"] == 2
    assert found.weight_bytes <= (3 * 2 * 9 + 2 * 3) * 4


def test_opaque_operators_are_listed_with_their_domain():
    proto = model(
        [node("Foo", ["x"], ["y"], domain="com.example")], [("x", [2])], [("y", [2])], domains={"com.example": 1}
    )
    found = inspected(proto)
    assert found.operators == {"com.example.Foo": 1}
    assert found.unsupported["nnef"] == {"com.example.Foo": 1}
    assert found.unsupported["onnx"] == {}


def test_weights_in_attributes_are_counted_if_used():
    held = helper.make_tensor("t", TensorProto.FLOAT, [3, 4], np.zeros(12, np.float32))
    other = helper.make_tensor("u", TensorProto.DOUBLE, [5], np.zeros(5))
    shape = helper.make_tensor("s", TensorProto.INT64, [2], np.array([2, 3]))
    nodes = [
        node("Made", [], ["w"], domain="com.example", value=held, first=other, alpha=2.0),
        node("Made", [], ["unread"], domain="com.example", value=held),
        node("Made", [], ["s"], domain="com.example", value=shape),
        node("Held", ["x"], ["v"], domain="com.example", value=held),
        node("Reshape", ["x", "s"], ["r"]),
        node("MatMul", ["r", "w"], ["h"]),
        node("Add", ["h", "w"], ["y"]),
    ]
    found = inspected(model(nodes, [("x", [6])], [("y", None), ("v", None)], domains={"com.example": 1}))
    assert (found.parameters, found.weight_bytes) == (12 + 5, 12 * 4 + 5 * 8)


def test_rows_and_caption_show_symbolic_macs():
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["z", "w"], ["y"]), node("Relu", ["h"], ["r"])]
    outputs = [("r", None), ("y", None)]
    found = inspected(model(nodes, [("x", ["N", 3]), ("z", None)], outputs, {"w": ones(3, 4)}))
    assert found.to_rows() == [
        {"operator": "MatMul", "nodes": 2, "macs": "12*N", "of_unknown_shape": 1},
        {"operator": "Relu", "nodes": 1, "macs": None, "of_unknown_shape": 0},
    ]
    assert found.caption.endswith("; 12 parameters in 48 bytes, 12*N MACs")
    assert found.caption.startswith("x: float32[N, 3], z: ")
