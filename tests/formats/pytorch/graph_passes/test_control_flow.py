"""Regions are inlined; branches and loops are converted to ONNX's If and Loop, and compute PyTorch's results."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, SequenceFact, TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pytorch.graph_passes.control_flow import convert_control_flow, inline_regions, inlined
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.laws import canonical, computed

REAL, NARROW, WHOLE = (TensorFact(dtype, (3,)) for dtype in (DType.FLOAT32, DType.FLOAT16, DType.INT64))
ROWS = TensorFact(DType.FLOAT32, (4, 3))
FLAG = TensorFact(DType.BOOL, ())
X, Y = np.array([1.0, -2.0, 3.0], np.float32), np.array([0.5, 4.0, -1.0], np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
SPACE = "higher_order."


NUMBERS = itertools.count()


def graph_of(*facts: Any) -> Any:
    graph = Graph()
    for name, fact in zip("xyzuv", facts, strict=False):
        graph.add_input(name, fact)
    return graph


def region_of(*facts: Any) -> Any:
    """A graph for a body, whose names are no others."""
    graph = Graph()
    for fact in facts:
        graph.add_input(f"i{next(NUMBERS)}", fact)
    return graph


def put(graph: Any, op_type: str, *operands: Value, keys: Any = None, fact: Any = REAL, results=1, **told: Any) -> Any:
    """Append a PyTorch node with operands named according to the schema, and return its results."""
    made = [Value(f"v{next(NUMBERS)}", fact) for _ in range(results)]
    names = keys or ("self", "other")[: len(operands)]
    graph.append(Node(op_type, list(operands), made, {KEYS: tuple(names), **told}, dialect="pytorch"))
    return made[0] if results == 1 else made


def body(*facts: Any, op_type: str = "aten.add.Tensor", fact: Any = REAL) -> Any:
    """Return a graph of one node that reads all its inputs."""
    made = region_of(*facts)
    made.set_outputs([put(made, op_type, *made.inputs, fact=fact)])
    return made


def words(graph: Any) -> list[str]:
    verify(graph)
    return [node.op_type for node in graph]


def owned(graph: Any, op_type: str) -> Any:
    """Return the only ONNX node; its bodies return values that they compute, each once."""
    verify(graph)
    (node,) = [each for each in graph if each.dialect == "onnx"]
    assert node.op_type == op_type
    assert not [each for each in graph if each.op_type.startswith(SPACE)]
    for each in node.bodies():
        assert all(value.producer is not None and value.graph is each for value in each.outputs)
        assert len(set(each.outputs)) == len(each.outputs)
        assert all(inner.output.uses for inner in each if inner.op_type == "aten.alias.default")
    return node


REGIONS = (
    *("wrap", "wrap_with_set_grad_enabled", "wrap_with_autocast", "hints_wrapper", "wrap_activation_checkpoint"),
    *("tag_activation_checkpoint", "invoke_subgraph", "invoke_quant", "invoke_quant_packed"),
)


def test_regions_are_inlined_at_their_node():
    for op_type in REGIONS:
        graph = graph_of(REAL, REAL)
        region = body(REAL, REAL, op_type="aten.sub.Tensor")
        storage = storage_of(Y)
        constant = region.add_constant("w", TensorFact.of(storage), storage)
        region.last.output.notes["told"] = 1
        region.set_outputs([put(region, "aten.mul.Tensor", region.last.output, constant), region.inputs[1]])
        first, second = put(graph, SPACE + op_type, *graph.inputs, keys=("0", "1"), results=2, **{"2": region})
        after = put(graph, "aten.add.Tensor", first, second)
        graph.set_outputs([after])
        inline_regions(graph)
        assert words(graph) == ["aten.sub.Tensor", "aten.mul.Tensor", "aten.add.Tensor"], op_type
        assert graph.first.output.notes["told"] == 1
        assert graph.last.operands[1] is graph.inputs[1]
        (result,) = computed(canonical(graph), {"x": X, "y": Y})
        np.testing.assert_array_equal(result, (X - Y) * Y + Y)


def test_no_other_op_type_is_a_region():
    for op_type, dialect, given in (
        (SPACE + "cond", "pytorch", 2),
        (SPACE + "wrap", "custom", 2),
        (SPACE + "wrap", "pytorch", 1),
    ):
        graph = graph_of(REAL, REAL)
        put(graph, op_type, *graph.inputs[:given], keys=("0", "1")[:given], **{"2": body(REAL, REAL)})
        graph.last.dialect = dialect
        graph.set_outputs([graph.last.output])
        inline_regions(graph)
        assert words(graph) == [op_type]
    both = graph_of(REAL)
    put(both, SPACE + "wrap", both.inputs[0], keys=("0",), **{"1": body(REAL), "2": body(REAL)})
    inline_regions(both)
    assert words(both) == [SPACE + "wrap"]


def test_functions_inlined_twice_have_unique_names():
    graph = graph_of(REAL, REAL)
    place = graph.append(Node("aten.relu.default", [graph.inputs[0]], [Value("r", REAL)], dialect="pytorch"))
    region = body(REAL, REAL)
    one, two = (inlined(region, place, given)[0] for given in (graph.inputs, graph.inputs[::-1]))
    assert words(graph) == ["aten.add.Tensor", "aten.add.Tensor", "aten.relu.default"]
    assert one.name != two.name
    assert (one.fact, one.producer.operands, two.producer.operands) == (REAL, graph.inputs, graph.inputs[::-1])
    assert words(region) == ["aten.add.Tensor"]


def test_inlining_at_a_node_without_graph_raises():
    with pytest.raises(ValueError, match="is in no graph"):
        inlined(body(REAL), Node("aten.relu.default", [], [Value("r", REAL)], dialect="pytorch"), [Value("x", REAL)])


def autocast(enabled: Any, own: Any, wanted: Any, op_type="aten.mm.default") -> Any:
    """Inline a region that computes `wanted` from `own`. Return its op types and their operands."""
    graph = graph_of(own, own)
    region = body(own, own, op_type=op_type, fact=wanted)
    told: Any = {"0": "cpu", "1": wanted, "2": enabled, "4": region}
    graph.set_outputs([put(graph, SPACE + "wrap_with_autocast", *graph.inputs, keys=("5", "6"), fact=wanted, **told)])
    inline_regions(graph)
    return graph


def test_autocast_region_gets_casts():
    graph = autocast(True, REAL, NARROW)
    assert words(graph) == ["aten.to.dtype", "aten.to.dtype", "aten.mm.default"]
    for node, source in zip(list(graph)[:2], graph.inputs, strict=True):
        assert (node.operands, node.output.fact) == ([source], NARROW)
        assert (node.attributes["dtype"], node.attributes[KEYS]) == ("torch.float16", ("self",))
    assert graph.last.operands == [node.output for node in list(graph)[:2]]
    assert len(words(autocast(True, NARROW, REAL))) == 3
    for enabled, own, wanted, op_type in (
        (False, REAL, NARROW, "aten.mm.default"),
        (1, REAL, NARROW, "aten.mm.default"),
        (True, REAL, REAL, "aten.mm.default"),
        (True, WHOLE, NARROW, "aten.mm.default"),
        (True, REAL, WHOLE, "aten.mm.default"),
        (True, REAL, TensorFact(DType.FLOAT64, (3,)), "aten.mm.default"),
        (True, REAL, UNKNOWN, "aten.mm.default"),
        (True, UNKNOWN, NARROW, "aten.mm.default"),
        (True, REAL, NARROW, "aten.to.dtype"),
        (True, REAL, NARROW, "aten._to_copy.default"),
    ):
        assert words(autocast(enabled, own, wanted, op_type)) == [op_type]
    several = region_of(SequenceFact(REAL))
    several.append(Node("aten.cat.default", [None, several.inputs[0]], [Value("joined", NARROW)], dialect="pytorch"))
    several.set_outputs([several.last.output])
    graph = graph_of(SequenceFact(REAL))
    put(graph, SPACE + "wrap_with_autocast", *graph.inputs, keys=("5",), **{"2": True, "4": several})
    inline_regions(graph)
    assert words(graph) == ["aten.cat.default"]
    other = graph_of(REAL, REAL)
    told: Any = {"2": True, "4": body(REAL, REAL, fact=NARROW)}
    put(other, SPACE + "wrap", *other.inputs, keys=("5", "6"), **told)
    inline_regions(other)
    assert words(other) == ["aten.add.Tensor"]


def test_branch_captures_outer_values():
    for is_known in (False, True):
        graph = graph_of(REAL, REAL, FLAG)
        x, y, flag = graph.inputs
        then, other = body(REAL, REAL), body(REAL, REAL)
        then.set_outputs([then.last.output, then.inputs[0]])
        other.set_outputs([other.inputs[1], other.inputs[1]])
        keys = (*(() if is_known else ("0",)), "3*", "3*")
        told = {"1": then, "2": other, **({"0": True} if is_known else {})}
        made = put(graph, SPACE + "cond", *(() if is_known else (flag,)), x, y, keys=keys, results=2, **told)
        graph.set_outputs(made)
        convert_control_flow(graph)
        node = owned(graph, "If")
        assert graph.opsets["onnx"] > 0
        assert [list(each.inputs) for each in node.bodies()] == [[], []]
        for chosen, expected in ((True, [X + Y, X]), *(() if is_known else ((False, [Y, Y]),))):
            found = computed(canonical(graph), {"x": X, "y": Y, "z": np.array(chosen)})
            np.testing.assert_array_equal(found, expected)


def test_a_branch_with_other_inputs_stays():
    for then, other in ((body(REAL), body(REAL, REAL)), (body(REAL, REAL), body(REAL)), (None, body(REAL, REAL))):
        graph = graph_of(REAL, REAL, FLAG)
        x, y, flag = graph.inputs
        put(graph, SPACE + "cond", flag, x, y, keys=("0", "3*", "3*"), **{"1": then or 1, "2": other})
        convert_control_flow(graph)
        assert words(graph) == [SPACE + "cond"]
    graph = graph_of(REAL, REAL, FLAG)
    put(graph, SPACE + "cond", graph.inputs[2], graph.inputs[0], keys=("0", "3*"), **{"1": body(REAL), "2": body(REAL)})
    graph.last.dialect = "custom"
    convert_control_flow(graph)
    assert words(graph) == [SPACE + "cond"]


def test_while_loop_checks_the_condition_before_each_iteration():
    """`while i < n: i, x = i + 1, x + y`."""
    scalar = TensorFact(DType.INT64, ())
    for rounds in (0, 1, 3):
        graph = graph_of(scalar, REAL, REAL, scalar)
        condition, round_ = (region_of(scalar, REAL, REAL, scalar) for _ in range(2))
        low, _, _, high = condition.inputs
        condition.set_outputs([put(condition, "aten.lt.Tensor", low, high, fact=FLAG)])
        i, x, y, _ = round_.inputs
        following = put(round_, "aten.add.Scalar", i, keys=("self",), fact=scalar, other=1)
        round_.set_outputs([following, put(round_, "aten.add.Tensor", x, y)])
        keys = ("2*", "2*", "3*", "3*")
        made = put(graph, SPACE + "while_loop", *graph.inputs, keys=keys, results=2, **{"0": condition, "1": round_})
        made[0].fact = scalar
        graph.set_outputs(made)
        convert_control_flow(graph)
        node = owned(graph, "Loop")
        assert int(node.operands[0].storage.numpy()) == np.iinfo(np.int64).max
        (inner,) = node.bodies()
        assert [value.fact for value in inner.inputs] == [scalar, FLAG, scalar, REAL]
        feeds = {"x": np.array(0), "y": X, "z": Y, "u": np.array(rounds)}
        count, total = computed(canonical(graph), feeds)
        assert count == rounds
        np.testing.assert_allclose(total, X + rounds * Y, rtol=1e-6)


def test_unsupported_while_loop_is_kept():
    for facts, keys in (((REAL,), ("2*", "2*")), ((REAL, REAL, REAL), ("2*", "2*")), ((REAL, REAL), ("3*", "3*"))):
        graph = graph_of(REAL, REAL)
        told = {"0": body(REAL, REAL), "1": body(*facts, op_type="aten.relu.default")}
        put(graph, SPACE + "while_loop", *graph.inputs, keys=keys, **told)
        convert_control_flow(graph)
        assert words(graph) == [SPACE + "while_loop"]


def test_scan_iterates_over_slices():
    graph = graph_of(REAL, ROWS, REAL)
    round_ = region_of(REAL, REAL, REAL)
    total, row, factor = round_.inputs
    after = put(round_, "aten.add.Tensor", total, put(round_, "aten.mul.Tensor", row, factor))
    round_.set_outputs([after, after])  # an output returned twice counts as two results
    last, every = put(graph, SPACE + "scan", *graph.inputs, keys=("1*", "2*", "3*"), results=2, **{"0": round_})
    every.fact = ROWS
    graph.set_outputs([last, every])
    convert_control_flow(graph)
    assert owned(graph, "Scan").attributes["num_scan_inputs"] == 1
    found = computed(canonical(graph), {"x": X, "y": TABLE, "z": Y})
    sums = X + np.cumsum(TABLE * Y, axis=0)
    np.testing.assert_allclose(found[0], sums[-1], rtol=1e-6)
    np.testing.assert_allclose(found[1], sums, rtol=1e-6)


def test_map_becomes_a_scan_without_state():
    for op_type in ("map", "map_impl"):
        graph = graph_of(ROWS, REAL)
        round_ = body(REAL, REAL, op_type="aten.mul.Tensor")
        made = put(graph, SPACE + op_type, *graph.inputs, keys=("1*", "2*"), fact=ROWS, **{"0": round_})
        graph.set_outputs([made])
        convert_control_flow(graph)
        owned(graph, "Scan")
        np.testing.assert_array_equal(computed(canonical(graph), {"x": TABLE, "y": Y})[0], TABLE * Y)
    for keys, facts in ((("2*", "2*"), (REAL, REAL)), (("1*", "2*"), (REAL,))):
        graph = graph_of(ROWS, REAL)
        put(graph, SPACE + "map", *graph.inputs, keys=keys, **{"0": body(*facts, op_type="aten.relu.default")})
        convert_control_flow(graph)
        assert words(graph) == [SPACE + "map"]
