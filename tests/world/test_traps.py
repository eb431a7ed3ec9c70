"""Small networks of the idioms that exporters write, through every verb and format; ONNX Runtime computes the oracle."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.world.travel import RIGHT, Sample, by_onnx_runtime, travel

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
FAR = 2**63 - 1


def constant(name, numbers, dtype=None):
    return numpy_helper.from_array(np.array(numbers, dtype), name)


def model(path, nodes, inputs, outputs, constants=(), *, opset=18, ir=8):
    puts = [helper.make_tensor_value_info(name, *what) for name, what in inputs.items()]
    gets = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph(nodes, "g", puts, gets, list(constants))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir), path)
    return path


def numbers(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def samples(path, **feeds):
    return {size: Sample(x, by_onnx_runtime(path, x)) for size, x in feeds.items()}


def node(*arguments, **attributes):
    return helper.make_node(*arguments, **attributes)


def slice_to_the_end(path):
    nodes = [node("Cast", ["e"], ["i"], to=I64), node("Slice", ["x", "s", "i"], ["y"])]
    stored = [constant("e", [FAR]), constant("s", [0])]
    return model(path, nodes, {"x": (F32, ["N"])}, {"y": F32}, stored), {"a": [numbers(4)], "b": [numbers(7)]}


def casts_of_stored_numbers(path):
    nodes = [
        node("Cast", ["i"], ["a"], to=TensorProto.UINT64),
        node("Cast", ["d"], ["b"], to=I64),
        node("Cast", ["i"], ["c"], to=TensorProto.DOUBLE),
        node("Cast", ["i"], ["e"], to=TensorProto.BOOL),
        node("Identity", ["x"], ["y"]),
    ]
    outputs = {"a": TensorProto.UINT64, "b": I64, "c": TensorProto.DOUBLE, "e": TensorProto.BOOL, "y": F32}
    stored = [constant("i", [2**40 + 7, 2**32]), constant("d", [16777217.0, 2.0**40 + 7])]
    return model(path, nodes, {"x": (F32, ["N"])}, outputs, stored), {"a": [numbers(3)]}


def shape_of_a_quotient(path):
    # x of M elements as [1, -1, N], then as [-1, N]: what exporters write round every attention.
    nodes = [
        node("Shape", ["z"], ["n"]),
        node("Concat", ["one", "rest", "n"], ["t1"], axis=0),
        node("Reshape", ["x", "t1"], ["a"]),
        node("Concat", ["rest", "n"], ["t2"], axis=0),
        node("Reshape", ["a", "t2"], ["y"]),
    ]
    inputs = {"x": (F32, ["M"]), "z": (F32, ["N"])}
    stored = [constant("one", [1]), constant("rest", [-1])]
    return model(path, nodes, inputs, {"y": F32}, stored), {
        "a": [numbers(12), numbers(4)],
        "b": [numbers(15), numbers(5)],
    }


def expanded_scalar(path):
    nodes = [node("Shape", ["x"], ["s"]), node("Expand", ["k", "s"], ["e"]), node("Mul", ["x", "e"], ["y"])]
    stored = [constant("k", 0.5, np.float32)]
    return model(path, nodes, {"x": (F32, ["N", 3])}, {"y": F32}, stored), {"a": [numbers(2, 3)], "b": [numbers(1, 3)]}


def expanded_integer(path):
    nodes = [
        node("Cast", ["x"], ["i"], to=TensorProto.INT32),
        node("Shape", ["x"], ["s"]),
        node("Expand", ["k", "s"], ["e"]),
        node("Mul", ["i", "e"], ["y"]),
    ]
    stored = [constant("k", -1, np.int32)]
    return model(path, nodes, {"x": (F32, ["N", 3])}, {"y": TensorProto.INT32}, stored), {"a": [numbers(2, 3) * 9]}


def filled_scalar(path):
    nodes = [
        node("ConstantOfShape", ["s"], ["k"], value=constant("v", [2.5], np.float32)),
        node("Add", ["x", "k"], ["y"]),
    ]
    stored = [constant("s", [], np.int64)]
    return model(path, nodes, {"x": (F32, ["N", 3])}, {"y": F32}, stored), {"a": [numbers(2, 3)]}


def parts_of_a_sequence(path):
    # What `split` becomes where the exporter's optimizer is off; the second part is read twice.
    nodes = [
        node("SplitToSequence", ["x", "k"], ["s"], axis=1),
        *(node("SequenceAt", ["s", place], [name]) for place, name in (("i", "a"), ("j", "b"), ("j", "c"))),
        node("Add", ["a", "b"], ["d"]),
        node("Mul", ["d", "c"], ["y"]),
    ]
    stored = [constant("k", 3), constant("i", 0), constant("j", -1)]
    return model(path, nodes, {"x": (F32, ["N", 6])}, {"y": F32}, stored), {"a": [numbers(2, 6)], "b": [numbers(1, 6)]}


TRAPS = [
    parts_of_a_sequence,
    slice_to_the_end,
    casts_of_stored_numbers,
    shape_of_a_quotient,
    expanded_scalar,
    expanded_integer,
    filled_scalar,
]
SAYS_ONLY_FLOATS = {"ncnn", "nnef", "pnnx"}
"""Formats that may refuse what they have no element types for."""
KNOWN = {"casts_of_stored_numbers": {"openvino"}}
"""OpenVINO computes integers of 64 bits in 32."""


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_every_conversion_gives_equal_results(trap, tmp_path):
    path, feeds = trap(tmp_path / "trap.onnx")
    journey = travel(path, samples(path, **feeds), tmp_path)
    excused = KNOWN.get(trap.__name__, set())
    assert not {step: end for step, end in journey.faults.items() if step not in excused}
    assert {step for step, end in journey.found.items() if end != RIGHT} <= SAYS_ONLY_FLOATS | excused


def test_pnnx_states_constants_that_are_no_operands_of_expressions(tmp_path):
    for trap in (expanded_scalar, expanded_integer, filled_scalar):
        path, feeds = trap(tmp_path / f"{trap.__name__}.onnx")
        assert travel(path, samples(path, **feeds), tmp_path).found["pnnx"] == RIGHT


def written(tmp_path, nodes, inputs, outputs, constants=(), **versions):
    return model(tmp_path / "m.onnx", nodes, inputs, outputs, constants, **versions)


def test_newest_opset_without_operator_changes_is_read(tmp_path):
    nodes = [node("Cast", ["x"], ["h"], to=10), node("Cast", ["h"], ["g"], to=F32), node("Relu", ["g"], ["y"])]
    path = written(tmp_path, nodes, {"x": (F32, ["N", 4])}, {"y": F32}, opset=28, ir=13)
    x = [numbers(2, 4)]
    wanted = [np.maximum(x[0].astype(np.float16).astype(np.float32), 0)]
    journey = travel(path, {"a": Sample(x, wanted)}, tmp_path)
    assert {step for step, end in journey.found.items() if end != RIGHT} <= {"ncnn", "nnef", "pnnx"}, journey.found


def test_a_node_with_a_newer_attribute_is_built_from_operators_without_it(tmp_path):
    path = written(
        tmp_path,
        [node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")],
        {"x": (F32, [1, 2, 4, 4])},
        {"y": F32},
        opset=28,
        ir=13,
    )
    loaded = gp.load(path)
    assert [each.op for each in loaded.graph] == ["SpaceToDepth", "Gather"]
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    wanted = x.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 2)
    np.testing.assert_array_equal(gp.run(loaded, {"x": x}, backend="reference")["y"], wanted)


def test_prepare_writes_the_opset_of_its_source(tmp_path):
    # From 22 on RandomNormalLike has types that ONNX Runtime lacks; nothing here needs them.
    nodes = [node("RandomNormalLike", ["x"], ["n"], seed=1.0), node("Add", ["x", "n"], ["y"])]
    path = written(tmp_path, nodes, {"x": (F32, ["N", 4])}, {"y": F32}, opset=21, ir=10)
    gp.save(gp.prepare(gp.load(path), verify=False)[0], tmp_path / "p.onnx")
    assert onnx.load(tmp_path / "p.onnx").opset_import[0].version == 21


def test_castlike_of_known_dtype_is_written_as_cast(tmp_path):
    nodes = [node("CastLike", ["i", "x"], ["c"]), node("Mul", ["x", "c"], ["y"])]
    path = written(tmp_path, nodes, {"x": (F32, ["N", 3])}, {"y": F32}, [constant("i", [2])])
    journey = travel(path, samples(path, a=[numbers(2, 3)]), tmp_path)
    assert (journey.found["pnnx"], journey.faults) == (RIGHT, {})
    assert {each.op_type for each in gp.simplify(gp.load(path), verify=False)[0].graph} == {"Mul"}


def test_allowzero_without_zero_is_dropped(tmp_path):
    reshape = [node("Reshape", ["x", "t"], ["y"], allowzero=1)]
    path = written(tmp_path, reshape, {"x": (F32, ["N", 6])}, {"y": F32}, [constant("t", [-1, 3])])
    gp.save(gp.load(path), tmp_path / "o.onnx", opset=13)
    x = numbers(2, 6)
    assert by_onnx_runtime(tmp_path / "o.onnx", [x])[0].shape == (4, 3)
    path = written(tmp_path, reshape, {"x": (F32, [0, 6])}, {"y": F32}, [constant("t", [3, 0])])
    with pytest.raises(gp.DiagnosticError, match="ONNX0602"):
        gp.save(gp.load(path), tmp_path / "o.onnx", opset=13)


def test_declared_values_have_a_dtype(tmp_path):
    nodes = [helper.make_node("Mystery", ["x"], ["h"], domain="some.where"), node("Relu", ["h"], ["y"])]
    path = written(tmp_path, nodes, {"x": (F32, [2])}, {"y": F32})
    proto = onnx.load(path)
    proto.opset_import.append(helper.make_opsetid("some.where", 1))
    proto.graph.value_info.append(onnx.ValueInfoProto(name="h"))
    onnx.save(proto, path)
    gp.save(gp.simplify(gp.load(path), verify=False)[0], tmp_path / "s.onnx")
    assert all(each.HasField("type") for each in onnx.load(tmp_path / "s.onnx").graph.value_info)


def test_a_fixed_extent_is_not_opened_silently(tmp_path):
    path = written(tmp_path, [node("Relu", ["x"], ["y"])], {"x": (F32, [1, 3])}, {"y": F32})
    with pytest.raises(gp.DiagnosticError, match="axis 0 is fixed"):
        gp.load(path, shapes={"x": ("N", 3)})


def test_weights_in_nodes_are_parameters(tmp_path):
    weights = constant("", np.ones((4, 5)), np.float32)
    nodes = [node("Constant", [], ["w"], value=weights), node("MatMul", ["x", "w"], ["y"])]
    path = written(tmp_path, nodes, {"x": (F32, ["N", 4])}, {"y": F32})
    assert gp.inspect(gp.load(path)).parameters == 20


def test_double_precision_does_not_become_single_silently(tmp_path):
    path = written(tmp_path, [node("Relu", ["x"], ["y"])], {"x": (TensorProto.DOUBLE, [2])}, {"y": TensorProto.DOUBLE})
    for flavour, code in ((None, "NNEF0776"), ("khronos", "LEG0006")):
        found = gp.convert(path, tmp_path / "net.nnef", verify=False, flavour=flavour).findings
        assert [(each.code, "y is float64" in each.message) for each in found] == [(code, True)]
