"""Canonical graphs written at older opsets: ONNX Runtime computes the reference results, or the export is refused."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.onnx import read, to_proto
from graphport.formats.onnx.container import opset_conversion
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import EXPORT_RULES, OPSET
from graphport.ops.infer import Inference
from tests.every import every
from tests.ops.oracle import evaluate_graph

RNG = np.random.default_rng(3)


def real(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def f(value: float) -> Any:
    return np.array(value, np.float32)


def one_node(
    op_type: str, operands: list[Any], attributes: dict[str, Any], count: int = 1
) -> tuple[Graph, dict[str, Any]]:
    """A canonical graph of one node: floats of some rank are inputs, all else is constant."""
    graph = Graph("net", opsets={"": OPSET})
    values = []
    given = {}
    for number, x in enumerate(operands):
        if x is None:
            values.append(None)
        elif x.dtype == np.float32 and x.ndim > 1:
            given[f"x{number}"] = x
            values.append(graph.add_input(f"x{number}", TensorFact.of(storage_of(x)).with_elements(None)))
        else:
            values.append(graph.add_constant(f"c{number}", TensorFact.of(storage_of(x)), storage_of(x)))
    op_def = registry.op_defs()[op_type]
    for result in Builder(Inference(), graph, count=count).results(op_def, count, *values, **attributes):
        graph.add_output(result)
    return graph, given


def run(proto: onnx.ModelProto, given: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def row(op_type: str, opset: int, operands: list[Any], says: list[str], count: int = 1, **attributes: Any) -> Any:
    return pytest.param(
        op_type, opset, operands, attributes, says, count, id=f"{op_type}-{opset}-{'+'.join(says)[:30]}"
    )


@every(("approximate", "op_type"), [("none", "Gelu"), ("tanh", "FastGelu")])
def test_gelu_in_an_old_opset_is_fused_by_onnx_runtime(tmp_path, approximate, op_type):
    graph = Graph("main", opsets={"": OPSET})
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    # Between an input and an output of the graph, nothing is fused.
    h = graph.append(Node("Neg", [x], [Value("h", x.fact)])).output
    k = graph.append(Node("Gelu", [h], [Value("k", x.fact)], {"approximate": approximate})).output
    graph.add_output(graph.append(Node("Neg", [k], [Value("y", x.fact)])).output)
    gp.save(gp.Model(graph), tmp_path / "gelu.onnx", opset=17)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "best.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(tmp_path / "gelu.onnx"), options, providers=["CPUExecutionProvider"])
    assert [node.op_type for node in onnx.load(tmp_path / "best.onnx").graph.node] == ["Neg", op_type, "Neg"]


ROWS = [
    row("Softmax", 12, [real(2, 3, 4)], ["Softmax"], axis=-1),
    row("Softmax", 12, [real(2, 3, 4)], ["Transpose", "Softmax", "Transpose"], axis=1),
    row("LogSoftmax", 9, [real(2, 3)], ["LogSoftmax"], axis=-1),
    row("Hardmax", 11, [real(2, 3)], ["Transpose", "Hardmax", "Transpose"], axis=0),
    row("Clip", 10, [real(2, 3), f(-0.5), None], ["Clip"]),
    row("Clip", 7, [real(2, 3), f(-0.5), f(0.5)], ["Clip"]),
    row("Dropout", 11, [real(2, 3), f(0.3)], ["Dropout"]),
    row("Dropout", 9, [real(2, 3), f(0.3)], ["Dropout", "Shape", "ConstantOfShape"], 2),
    row("Gelu", 19, [real(2, 3)], ["Mul", "Div", "Erf", "Add", "Mul"]),
    row("Gelu", 17, [real(2, 3)], ["Mul", "Pow", "Mul", "Add", "Mul", "Tanh", "Add", "Mul"], approximate="tanh"),
    row("HardSwish", 13, [real(2, 3)], ["HardSigmoid", "Mul"]),
    row("Swish", 23, [real(2, 3)], ["Mul", "Sigmoid", "Mul"], alpha=1.5),
    row("Mish", 17, [real(2, 3)], ["Softplus", "Tanh", "Mul"]),
    row("CastLike", 14, [real(2, 3), ints(1)], ["Cast"]),
    row("GreaterOrEqual", 11, [real(2, 3), real(2, 3)], ["Greater", "Equal", "Or"]),
    row("LessOrEqual", 11, [real(2, 3), real(2, 3)], ["Less", "Equal", "Or"]),
    row("Slice", 9, [real(4, 5), ints(1, 0), ints(3, 2**62), ints(0, -1)], ["Slice"]),
    row("ScatterElements", 10, [real(3, 3), ints(1, 0, 2).reshape(1, 3), real(1, 3)], ["Scatter"]),
    row("Split", 17, [real(2, 5)], ["Split"], 2, axis=-1, num_outputs=2),
    row("Split", 11, [real(2, 5), ints(2, 3)], ["Split"], 2, axis=-1),
    row("Squeeze", 12, [real(2, 1, 3), ints(-2)], ["Squeeze"]),
    row("Squeeze", 9, [real(2, 1, 3)], ["Squeeze"]),
    row("Reshape", 13, [real(2, 6), ints(-1, 3)], ["Reshape"], allowzero=1),
    row("Unsqueeze", 10, [real(2, 3), ints(-1, 0)], ["Unsqueeze"]),
    row("Shape", 14, [real(2, 3, 4)], ["Shape", "Slice"], start=-2),
    row("Shape", 9, [real(2, 3, 4)], ["Shape", "Slice"], start=0, end=2),
    row("DepthToSpace", 10, [real(1, 4, 2, 2)], ["DepthToSpace"], blocksize=2),
    *(
        row(op_type, opset, [abs(real(2, 3, 4)), ints(-1, 0)], [op_type], keepdims=0)
        for op_type, opset in (
            *(("ReduceSum", n) for n in (12, 9)),
            *((f"Reduce{name}", 17) for name in ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp")),
            ("ReduceSumSquare", 10),
        )
    ),
    row("ReduceMean", 17, [real(2, 3)], ["ReduceMean"], keepdims=1),
    row("TopK", 10, [real(2, 5), ints(2)], ["TopK"], 2, axis=-1),
    row("TopK", 9, [real(2, 5), ints(2)], ["TopK"], 2, axis=0),
    row("Gemm", 10, [real(2, 3), real(3, 4)], ["Gemm"], alpha=0.5),
    row("BatchNormalization", 13, [real(2, 3, 4), *(abs(real(3)) for _ in range(4))], ["BatchNormalization"]),
    row(
        "BatchNormalization", 7, [real(2, 3, 4), *(abs(real(3)) for _ in range(4))], ["BatchNormalization"], epsilon=0.1
    ),
    row(
        "LayerNormalization",
        16,
        [real(2, 3, 4), real(4), real(4)],
        ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"],
    ),
    row("RMSNormalization", 22, [real(2, 3, 4), real(4)], ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]),
    row(
        "GroupNormalization",
        20,
        [real(2, 4, 3, 3), real(4), real(4)],
        ["Reshape", "InstanceNormalization", "Shape", "Reshape", "Mul", "Add"],
        num_groups=2,
    ),
    row("Pad", 17, [real(2, 3), ints(1, 2), f(0.5), ints(-1)], ["Pad"]),
    row("Pad", 10, [real(2, 3), ints(1, 2, 0, 1), f(0.5)], ["Pad"]),
    row("Pad", 7, [real(2, 3), ints(1, 1, 0, 1)], ["Pad"], mode="reflect"),
    row("Resize", 17, [real(1, 1, 3, 3), None, np.array([1, 1, 2, 2], np.float32)], ["Resize"]),
    row("Resize", 12, [real(1, 1, 3, 3), None, None, ints(1, 1, 5, 7)], ["Resize"], mode="linear"),
    row(
        "Resize",
        10,
        [real(1, 1, 3, 3), None, np.array([1, 1, 2, 2], np.float32)],
        ["Resize"],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    row(
        "Resize",
        9,
        [real(1, 1, 3, 3), None, None, ints(1, 1, 6, 9)],
        ["Upsample"],
        coordinate_transformation_mode="asymmetric",
        mode="linear",
    ),
    row(
        "Resize",
        7,
        [real(1, 1, 3, 3), None, np.array([1, 1, 2, 2], np.float32)],
        ["Upsample"],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    row("GridSample", 19, [real(1, 1, 4, 4), real(1, 3, 3, 2)], ["GridSample"], mode="cubic"),
    row(
        "RoiAlign",
        15,
        [real(1, 1, 8, 8), np.array([[0, 0, 5, 5]], np.float32), ints(0)],
        ["RoiAlign"],
        coordinate_transformation_mode="output_half_pixel",
        output_height=2,
        output_width=2,
    ),
    row("DFT", 19, [real(2, 4, 1), None, np.array(-2, np.int64)], ["DFT"]),
    row("Constant", 11, [], ["Constant"], value_ints=(1, 2)),
    row("QuantizeLinear", 20, [real(2, 3), f(0.1)], ["QuantizeLinear"], output_dtype=DType.INT8),
    row("QuantizeLinear", 12, [real(2, 3), f(0.1), np.array(7, np.uint8)], ["QuantizeLinear"]),
    row("QuantizeLinear", 13, [real(2, 3), abs(real(3)), np.zeros(3, np.uint8)], ["QuantizeLinear"], axis=-1),
    row("DequantizeLinear", 10, [np.array([[1, 2]], np.uint8), f(0.1)], ["DequantizeLinear"]),
    row("Concat", 9, [real(2, 3), real(2, 3)], ["Concat"], axis=-1),
    row("AveragePool", 11, [real(1, 1, 4, 4)], ["AveragePool"], kernel_shape=(2, 2), dilations=(1, 1)),
]


@every(("op_type", "opset", "operands", "attributes", "says", "count"), ROWS)
def test_older_op_types_are_equivalent(op_type, opset, operands, attributes, says, count):
    graph, given = one_node(op_type, operands, attributes, count)
    proto = to_proto(graph, opset=opset)
    onnx.checker.check_model(proto, full_check=True)
    assert [node.op_type for node in proto.graph.node] == says
    assert proto.opset_import[0].version == opset
    computed = evaluate_graph(graph, {value: given[value.name] for value in graph.inputs})
    for value, found in zip(graph.outputs, run(proto, given), strict=True):
        np.testing.assert_allclose(found.astype(np.float64), computed[value].astype(np.float64), rtol=1e-4, atol=1e-5)
    back, findings = legalize(read(proto))
    assert not findings
    again = evaluate_graph(back, {value: given[value.name] for value in back.inputs})
    for value, twin in zip(graph.outputs, back.outputs, strict=True):
        np.testing.assert_allclose(
            again[twin].astype(np.float64), computed[value].astype(np.float64), rtol=1e-4, atol=1e-5
        )


def test_every_rule_is_exercised():
    registry.load("onnx")
    ruled = {
        (op_type, rule.until)
        for (dialect, op_type), rules in EXPORT_RULES.items()
        if dialect == "onnx"
        for rule in rules
    }
    shown = {
        (op_type, rule.until)
        for (op_type, opset) in ((param.values[0], param.values[1]) for param in ROWS)
        for rule in [rule for rule in EXPORT_RULES.get(("onnx", op_type), ()) if opset <= rule.until][:1]
    }
    assert ruled == shown


def refusal(graph: Graph, opset: int) -> list[Any]:
    with pytest.raises(DiagnosticError) as caught:
        to_proto(graph, opset=opset)
    return list(caught.value.diagnostics)


@pytest.mark.parametrize(
    ("op_type", "opset", "operands", "attributes", "reason"),
    [
        pytest.param("Attention", 22, [real(1, 1, 2, 4)] * 3, {}, "the operator was added in a later opset", id="new"),
        pytest.param(
            "Slice",
            9,
            [real(4, 5), ints(0), ints(4), ints(0), ints(2)],
            {},
            "steps other than 1 are not supported",
            id="steps",
        ),
        pytest.param("ReduceSum", 12, [real(2, 3)], {"noop_with_empty_axes": 1}, "noop_with_empty_axes", id="none"),
        pytest.param("TopK", 10, [real(2, 3), ints(1)], {"largest": 0}, "smallest = true is not supported", id="least"),
        pytest.param(
            "Pad", 18, [real(2, 3), ints(0, 1, 0, 1)], {"mode": "wrap"}, "mode wrap is not supported", id="wrap"
        ),
        pytest.param(
            "Cast", 12, [real(2, 3)], {"to": DType.BFLOAT16}, "output does not accept tensor(bfloat16)", id="type"
        ),
        pytest.param(
            "ScatterElements",
            10,
            [real(2, 2), ints(0, 0).reshape(1, 2), real(1, 2)],
            {"reduction": "add"},
            "reduction is not supported",
            id="sum",
        ),
        pytest.param(
            "AveragePool",
            18,
            [real(1, 1, 4, 4)],
            {"kernel_shape": (2, 2), "dilations": (2, 2)},
            "the attribute dilations was added in a later opset",
            id="attribute",
        ),
        pytest.param(
            "QuantizeLinear",
            12,
            [real(2, 3), abs(real(3)), np.zeros(3, np.uint8)],
            {"axis": 1},
            "per-axis scales are not supported",
            id="one scale",
        ),
        pytest.param(
            "Resize",
            12,
            [real(1, 1, 3, 3), None, None, ints(3, 3)],
            {"axes": (2, 3)},
            "axes and antialias",
            id="axes",
        ),
    ],
)
def test_what_cannot_be_expressed_is_written(op_type, opset, operands, attributes, reason):
    graph, _ = one_node(op_type, operands, attributes, 2 if op_type == "TopK" else 1)
    (finding,) = refusal(graph, opset)
    assert finding.code == "ONNX0602"
    assert f"1 node {op_type} cannot be written in opset {opset}: " in finding.message
    assert reason in finding.message
    assert "supports all nodes" in (finding.help or "")


def test_default_opset_is_the_lowest_sufficient_from_17():
    for op_type, expected in (("Softmax", 17), ("Gelu", 17), ("Attention", 23)):
        graph, _ = one_node(op_type, [real(1, 1, 2, 4)] * (3 if op_type == "Attention" else 1), {})
        assert to_proto(graph).opset_import[0].version == expected


def test_a_file_is_written_at_the_opset_that_it_was_read_at():
    nodes = [
        onnx.helper.make_node("Clip", ["x"], ["c"], min=-1.0, max=1.0),
        onnx.helper.make_node("Unsqueeze", ["c"], ["u"], axes=[0]),
        onnx.helper.make_node("Softmax", ["u"], ["y"], axis=2),
    ]
    infos = [onnx.helper.make_tensor_value_info(name, 1, None) for name in "xy"]
    infos[0].type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=[{"dim_value": 2}, {"dim_value": 3}]))
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "net", infos[:1], infos[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 9)],
        ir_version=4,
    )
    written = to_proto(legalize(read(proto))[0])
    assert [node.op_type for node in written.graph.node] == ["Clip", "Unsqueeze", "Softmax"]
    assert written.opset_import[0].version == 9
    assert not written.graph.initializer


def test_opset_6_writes_is_test_and_broadcast():
    graph, _ = one_node("Dropout", [real(2, 3), f(0.3)], {})
    (node,) = to_proto(graph, opset=6).graph.node
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}["is_test"] == 1
    graph, _ = one_node("Gemm", [real(2, 3), real(3, 4), real(4)], {})
    (node,) = to_proto(graph, opset=6).graph.node
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}["broadcast"] == 1


def test_unreleased_opset_uses_the_next_ir_version():
    graph, _ = one_node("Softmax", [real(2, 3)], {})
    proto = to_proto(graph, opset=4)
    assert (proto.opset_import[0].version, proto.ir_version) == (4, 4)


def test_a_mask_without_consumers_is_not_written():
    graph, _ = one_node("Dropout", [real(2, 3)], {}, count=2)
    graph.set_outputs(graph.outputs[:1])
    assert [node.op_type for node in to_proto(graph, opset=9).graph.node] == ["Dropout"]


def test_negative_axes_are_kept_for_unknown_rank():
    graph, _ = one_node("ReduceSum", [real(2, 3), ints(-1)], {})
    graph.inputs[0].fact = TensorFact(DType.FLOAT32, None)
    assert to_proto(graph, opset=12).graph.node[0].attribute[0].ints == [-1]
    (finding,) = refusal(graph, 10)
    assert "unknown" in finding.message


def test_bodies_are_written_at_the_opset_too():
    graph = Graph("net", opsets={"": OPSET})
    condition = graph.add_input("c", TensorFact(DType.BOOL, ()))
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    branches = {}
    for name, axis in (("then_branch", -1), ("else_branch", 0)):
        body = Graph(name)
        graph.share_names(body)
        op_def = registry.op_defs()["Softmax"]
        body.add_output(Builder(Inference(), body)(op_def, x, axis=axis))
        branches[name] = body
    node = Node("If", [condition], [], branches)
    graph = _with_result(graph, node)
    written = to_proto(graph, opset=11)
    given = {"x": real(2, 3)}
    for chosen, axis in ((True, -1), (False, 0)):
        (found,) = run(written, given | {"c": np.array(chosen)})
        e = np.exp(given["x"])
        np.testing.assert_allclose(found, e / e.sum(axis=axis, keepdims=True), rtol=1e-5)


def _with_result(graph: Graph, node: Node) -> Graph:
    from graphport.ir.graph import Value

    made = graph.append(Node("If", node.inputs, [Value("y", TensorFact(DType.FLOAT32, (2, 3)))], node.attributes))
    graph.add_output(made.output)
    return graph


def test_a_graph_is_not_changed_by_writing():
    graph, _ = one_node("Clip", [real(2, 3), f(-0.5), f(0.5)], {})
    before = [(node.op, node.inputs) for node in graph]
    to_proto(graph, opset=9)
    assert [(node.op, node.inputs) for node in graph] == before
    assert len(graph.constants) == 2


def test_canonical_opset_needs_no_conversion():
    graph, _ = one_node("Gelu", [real(2, 3)], {})
    assert opset_conversion._Emitter(OPSET).emit(graph) is graph


def test_unknown_opset_is_reported():
    graph, _ = one_node("Relu", [real(2)], {}, 1)
    (finding,) = refusal(graph, 99)
    assert (finding.code, finding.message) == ("ONNX0602", "unsupported opset 99")


@pytest.mark.parametrize(
    ("op_type", "version", "kernel"),
    [("LayerNormalization", 13, "LayerNormalization"), ("RMSNormalization", 17, "SimplifiedLayerNormalization")],
)
def test_decomposed_normalizations_are_fused_by_onnx_runtime(op_type, version, kernel, tmp_path):
    scales = [abs(real(64)), *([real(64)] if op_type == "LayerNormalization" else [])]
    graph, given = one_node(op_type, [real(2, 5, 64), *scales], {})
    proto = to_proto(graph, opset=version)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    made = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    assert [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node] == [kernel]
    np.testing.assert_allclose(made.run(None, given)[0], run(proto, given)[0], rtol=1e-5, atol=1e-5)


def test_types_that_came_later_lead_to_a_later_opset():
    """Also with a rule for older opsets that leaves the node unchanged."""
    graph = Graph("net", opsets={"": OPSET})
    codes = graph.add_constant("codes", TensorFact(DType.INT2, (4,)), storage_of(np.array([-2, -1, 0, 1]), DType.INT2))
    scale = graph.add_constant("scale", TensorFact(DType.FLOAT32, ()), storage_of(f(0.5)))
    result = Value("y", TensorFact(DType.FLOAT32, (4,)))
    graph.append(Node("DequantizeLinear", [codes, scale], [result]))
    graph.add_output(result)
    proto = to_proto(graph)
    assert [entry.version for entry in proto.opset_import] == [25]
    (y,) = run(proto, {})
    np.testing.assert_array_equal(y, [-1, -0.5, 0, 0.5])
    with pytest.raises(DiagnosticError, match=r"ONNX0602.*int2"):
        to_proto(graph, opset=21)


@pytest.mark.parametrize(
    ("op_type", "axis", "written"),
    [
        pytest.param("Softmax", 1, ["Relu", "Softmax"], id="flattened"),
        pytest.param("LogSoftmax", 0, ["Relu", "LogSoftmax"], id="all axes"),
        pytest.param("Hardmax", -2, ["Relu", "Hardmax"], id="negative axis"),
    ],
)
def test_softmax_of_flattened_axes_keeps_its_form(tmp_path, op_type, axis, written):
    """Softmax up to opset 12 flattens the axes from `axis` on; the current one does not."""
    helper = onnx.helper
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node(op_type, ["r"], ["y"], axis=axis)]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 4, 3, 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:])
    opset = 8 if axis >= 0 else 11
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
    gp.save(gp.simplify(source)[0], tmp_path / "s.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "s.onnx").graph.node] == written
    x = {"x": real(5, 4, 3, 2)}
    sessions = (source.SerializeToString(), (tmp_path / "s.onnx").read_bytes())
    first, second = (
        onnxruntime.InferenceSession(each, providers=["CPUExecutionProvider"]).run(None, x) for each in sessions
    )
    np.testing.assert_array_equal(second[0], first[0])
