"""The inference driver: types, propagation of elements, claims of the file, bodies, dialects."""

import numpy as np
import pytest

from graphport.core.diagnostics import Severity
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, SequenceFact, TensorFact
from graphport.core.storage import storage_of
from graphport.ir import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.infer import Inference, infer
from graphport.ops.operator_facts import shared_inference_cache

N, H = Symbol("N"), Symbol("H")
FLOAT, INT = DType.FLOAT32, DType.INT64


def ints(*elements) -> TensorFact:
    return TensorFact(INT, (len(elements),), elements)


def op_def(name, *facts, count=1, **attributes):
    return Inference().infer_operator(registry.op_defs()[name], facts, attributes, count)


def test_reshape_reads_the_shape_that_other_nodes_compute():
    graph = Graph()
    x = graph.add_input("x", TensorFact(FLOAT, (N, 3, H, 4)))
    zero = graph.add_constant("zero", TensorFact.of(storage_of([0])), storage_of([0]))
    rest = graph.add_constant("rest", TensorFact.of(storage_of([-1])), storage_of([-1]))
    shape = graph.append(Node("Shape", [x], [Value("shape")])).output
    batch = graph.append(Node("Gather", [shape, zero], [Value("batch")])).output
    target = graph.append(Node("Concat", [batch, rest], [Value("target")], {"axis": 0})).output
    y = graph.append(Node("Reshape", [x, target], [Value("y")])).output
    assert infer(graph) == []
    assert target.fact.elements == (N, -1)
    assert y.fact == TensorFact(FLOAT, (N, 12 * H))


@pytest.mark.parametrize(
    ("name", "facts", "attributes", "words"),
    [
        pytest.param("Relu", [TensorFact(DType.STRING, (1,))], {}, "x is string", id="type outside the schema"),
        pytest.param(
            "Add", [TensorFact(FLOAT, (1,)), TensorFact(INT, (1,))], {}, "int64", id="two types for one variable"
        ),
        pytest.param("Relu", [], {}, "operands", id="too few operands"),
        pytest.param("Relu", [TensorFact(FLOAT, ())] * 2, {}, "operands", id="too many operands"),
        pytest.param("Reshape", [None, ints(1)], {}, "absent", id="operand absent"),
        pytest.param("Relu", [TensorFact(FLOAT, ())], {"slope": 1.0}, "slope", id="unknown attribute"),
        pytest.param("Concat", [TensorFact(FLOAT, (1,))], {}, "axis", id="attribute missing"),
    ],
)
def test_wrong_use_is_refused(name, facts, attributes, words):
    with pytest.raises(ShapeError, match=words):
        op_def(name, *facts, **attributes)


def test_shape_error_is_reported_and_inference_continues():
    graph = Graph()
    x = graph.add_input("x", TensorFact(FLOAT, (2, 3)))
    target = graph.add_constant("target", ints(5), storage_of([5]))
    bad = graph.append(Node("Reshape", [x, target], [Value("bad")])).output
    good = graph.append(Node("Relu", [x], [Value("good")])).output
    findings = infer(graph)
    assert [finding.code for finding in findings] == ["SHAPE0001"]
    assert "Reshape" in findings[0].message
    assert bad.fact == UNKNOWN
    assert good.fact == x.fact


def test_unknown_rank_keeps_the_element_type():
    assert op_def("Transpose", TensorFact(FLOAT, None)) == (TensorFact(FLOAT, None),)


def test_known_elements_are_computed_by_the_operator_definition():
    assert op_def("Mul", ints(3, 4), ints(5, 6)) == (TensorFact(INT, (2,), (15, 24)),)
    assert op_def("Mul", ints(N, 4), ints(2, 6))[0].elements == (2 * N, 24)


def test_known_integer_elements_wrap_on_overflow():
    (fact,) = op_def("Add", ints(2**63 - 1), ints(1))
    assert fact.elements == (-(2**63),)


def test_pytorch_pads_reversed_through_a_matrix_are_inferred():
    # PyTorch counts pads from the last axis on; its exporter turns them around for ONNX at run time.
    (matrix,) = op_def("Reshape", ints(1, 2, N, 0), ints(-1, 2))
    assert matrix == TensorFact(INT, (2, 2), (1, 2, N, 0))
    (turned,) = op_def("Slice", matrix, ints(-1), ints(-(2**63) + 1), ints(0), ints(-1))
    (begins,) = Inference().infer_operator(registry.op_defs()["Transpose"], [turned], {"perm": (1, 0)}, 1)
    assert op_def("Reshape", begins, ints(-1))[0] == TensorFact(INT, (4,), (N, 1, 0, 2))


def test_division_by_zero_leaves_the_elements_open():
    assert op_def("Div", ints(N), ints(0))[0].elements is None


def test_broadcasting_a_symbol_with_1_gives_the_symbol():
    (fact,) = op_def("Add", TensorFact(FLOAT, (N, 1)), TensorFact(FLOAT, (H,)))
    assert fact.shape == (N, H)


def test_a_claim_that_contradicts_is_reported():
    graph = Graph()
    x = graph.add_input("x", TensorFact(FLOAT, (2, 3)))
    y = graph.append(Node("Relu", [x], [Value("y", TensorFact(FLOAT, (2, 4)))])).output
    inference = Inference()
    inference.graph(graph, check_declared=True)
    assert [finding.code for finding in inference.findings] == ["SHAPE0002"]
    assert y.fact.shape == (2, 3)


@pytest.mark.parametrize("dialect", ["", "onnx", "openvino"])
def test_graph_inference_equals_node_by_node_inference(dialect):
    """Nodes that are alike, and nodes that differ from them in one thing each."""

    def made():
        graph = Graph(opsets={"": 21, "onnx": 21})
        shapes = [(2, 3), (2, 3), (N, 3), (3,)]
        inputs = [graph.add_input(f"x{n}", TensorFact(FLOAT, shape)) for n, shape in enumerate(shapes)]
        numbers = [storage_of(np.float32([n, 1])) for n in range(2)]
        constants = [graph.add_constant("c", TensorFact(FLOAT, (2,)), each) for each in numbers]
        prefix = {"": "", "onnx": "", "openvino": "opset1."}[dialect]
        claims = [UNKNOWN, TensorFact(FLOAT, None), TensorFact(FLOAT, (2, 3)), TensorFact(FLOAT, (9,))]
        relu = f"{prefix}{'ReLU' if dialect == 'openvino' else 'Relu'}"
        for claim in claims * 2:
            for x in inputs:
                graph.append(Node(relu, [x], [Value(graph.fresh("r"), claim)], dialect=dialect))
                graph.append(Node(f"{prefix}Add", [x, inputs[3]], [Value(graph.fresh("a"), claim)], dialect=dialect))
                graph.append(Node(f"{prefix}Add", [inputs[3], x], [Value(graph.fresh("a"), claim)], dialect=dialect))
                for constant in constants:
                    graph.append(Node(f"{prefix}Add", [x, constant], [Value(graph.fresh("b"))], dialect=dialect))
                axes = {"axis": -1} if dialect != "openvino" else {"axis": 0, "special_zero": 1}
                graph.append(Node(f"{prefix}Softmax", [x], [Value(graph.fresh("s"), claim)], axes, dialect=dialect))
                graph.append(Node(f"{prefix}Softmax", [x], [Value(graph.fresh("s"))], {"axis": 5}, dialect=dialect))
        return graph

    for check_declared in (False, True):
        whole, single = made(), made()
        inference = Inference()
        inference.graph(whole, check_declared=check_declared)
        one_by_one = Inference()
        one_by_one.meet(single)
        for node in single:
            one_by_one.settle(node, check_declared=check_declared)
        one_by_one.conclude(single)
        findings = [[(found.code, found.message) for found in each.findings] for each in (inference, one_by_one)]
        assert findings[0] == findings[1]
        assert [value.fact for value in whole.values()] == [value.fact for value in single.values()]


def test_declared_fact_is_kept_for_opaque_nodes():
    graph = Graph()
    x = graph.add_input("x", TensorFact(FLOAT, (2, 3)))
    claim = TensorFact(FLOAT, (7,))
    y = graph.append(Node("Strange", [x], [Value("y", claim)], dialect="com.example")).output
    infer(graph)
    assert y.fact == claim


def test_declared_dtype_is_kept_if_only_the_shape_is_inferred():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.STRING, (2, 3)))
    shape = graph.add_constant("shape", ints(6), storage_of([6]))
    opaque = graph.append(Node("Strange", [x], [Value("opaque")], dialect="com.example")).output
    y = graph.append(Node("Reshape", [opaque, shape], [Value("y", TensorFact(FLOAT, None))])).output
    infer(graph)
    infer(graph)
    assert y.fact == TensorFact(FLOAT, (6,))


def test_data_dependent_sizes_get_new_symbols():
    graph = Graph()
    limits = [graph.add_input(name, TensorFact(INT, ())) for name in ("start", "limit", "delta")]
    a = graph.append(Node("Range", limits, [Value("a")])).output
    b = graph.append(Node("Range", limits, [Value("b")])).output
    infer(graph)
    assert a.fact.shape == (Symbol("a.0", 0),)
    assert a.fact.shape != b.fact.shape


def test_the_fact_of_a_dialects_op_type_is_that_of_its_lowering():
    graph = Graph()
    x = graph.add_input("x", TensorFact(FLOAT, (N, 8)))
    bias = graph.add_constant("bias", TensorFact(FLOAT, (1,)), storage_of(np.ones(1, np.float32)))
    y = graph.append(Node("add", [x, bias], [Value("y")], dialect="nnef")).output
    attributes = {"shape": (0, 2, -1), "axis_start": 0, "axis_count": -1}
    z = graph.append(Node("reshape", [y], [Value("z")], attributes, dialect="nnef")).output
    assert infer(graph) == []
    assert y.fact.shape == (N, 8)
    assert z.fact.shape == (N, 2, 4)
    assert len(graph) == 2


def if_graph(then_shape, else_shape):
    graph = Graph()
    condition = graph.add_input("condition", TensorFact(DType.BOOL, ()))
    x = graph.add_input("x", TensorFact(FLOAT, (N, 4)))
    bodies = []
    for name, shape in (("then", then_shape), ("else", else_shape)):
        body = Graph(name)
        target = body.add_constant(f"{name}_shape", ints(*shape), storage_of(list(shape)))
        body.add_output(body.append(Node("Reshape", [x, target], [Value(f"{name}_y")])).output)
        bodies.append(body)
    y = graph.append(Node("If", [condition], [Value("y")], {"then_branch": bodies[0], "else_branch": bodies[1]})).output
    graph.add_output(y)
    return graph, y


def test_if_joins_its_bodies():
    graph, y = if_graph((0, 2, 2), (0, 1, 4))
    assert infer(graph) == []
    assert y.fact == TensorFact(FLOAT, (N, Symbol("y.1", 0), Symbol("y.2", 0)))
    graph, y = if_graph((0, 4), (-1,))
    infer(graph)
    assert y.fact == TensorFact(FLOAT, None)


def test_shape_error_in_a_conditional_body_is_a_warning():
    graph, _ = if_graph((0, 4), (5, 5, 5, -1, -1))
    assert [finding.severity for finding in infer(graph)] == [Severity.WARNING]


def test_loop_inference_makes_changing_dims_dynamic():
    graph = Graph()
    trips = graph.add_constant("trips", TensorFact.of(storage_of(5)), storage_of(5))
    x = graph.add_input("x", TensorFact(FLOAT, (N, 1)))
    body = Graph("body")
    number = body.add_input("number")
    going = body.add_input("going")
    carried = body.add_input("carried")
    grown = body.append(Node("Concat", [carried, x], [Value("grown")], {"axis": 1})).output
    still = body.append(Node("Identity", [going], [Value("still")])).output
    double = body.append(Node("Add", [number, number], [Value("double")])).output
    body.set_outputs([still, grown, double])
    node = graph.append(Node("Loop", [trips, None, x], [Value("last"), Value("numbers")], {"body": body}))
    assert infer(graph) == []
    last, numbers = node.results
    assert last.fact == TensorFact(FLOAT, (N, Symbol("last.1", 0)))
    assert numbers.fact.dtype is INT
    assert len(numbers.fact.shape) == 1


def test_sequences_have_facts():
    (fact,) = op_def("SequenceConstruct", TensorFact(FLOAT, (2, N)), TensorFact(FLOAT, (3, N)))
    assert isinstance(fact, SequenceFact)
    assert fact.element.shape[1] == N


def test_a_symbolic_index_leaves_the_elements_unknown():
    data = TensorFact(DType.INT64, (3,)).with_elements([4, 5, 6])
    index = TensorFact(DType.INT64, ()).with_elements([Symbol("N")])
    (fact,) = Inference().infer_operator(registry.op_defs()["Gather"], [data, index], {}, 1)
    assert (fact.shape, fact.elements) == ((), None)


@pytest.mark.parametrize(("dims", "is_asked_again"), [(((2, 3), (2, 3)), False), (((2, N), (2, H)), True)])
def test_inference_result_is_cached_unless_it_adds_requirements(monkeypatch, dims, is_asked_again):
    asked: list[str] = []
    infer_operator_of = Inference.infer_operator

    def counted(self, op_def, *rest):
        asked.append(op_def.name)
        return infer_operator_of(self, op_def, *rest)

    def answered():
        inference = Inference()
        facts = inference.answer(registry.op_defs()["Add"], [TensorFact(FLOAT, shape) for shape in dims], {}, 1)
        return facts, [str(each) for each in inference.required]

    monkeypatch.setattr(Inference, "infer_operator", counted)
    with shared_inference_cache():
        first, second = answered(), answered()
    assert first == second
    assert bool(first[1]) is is_asked_again
    assert len(asked) == 1 + is_asked_again
    assert answered() == first
    assert len(asked) == 2 + is_asked_again


def test_negative_and_positive_zero_have_separate_facts():
    """0.0 is -0.0, and equal keys are one: each node is asked for itself."""
    graph = Graph()
    for name, number in (("a", 0.0), ("b", -0.0), ("c", 0.0)):
        made = graph.append(Node("Constant", [], [Value(name, UNKNOWN)], {"value_float": number}))
        graph.add_output(graph.append(Node("Neg", [made.output], [Value(f"{name}.neg", UNKNOWN)])).output)
    infer(graph)
    told = {value.name: repr(value.fact.reals) for node in graph for value in node.results}
    assert [told[name] for name in "abc"] == ["(0.0,)", "(-0.0,)", "(0.0,)"]


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        pytest.param("Sum", [TensorFact(FLOAT, (1,)), None], {}, "absent", id="absent in a variadic operand"),
        pytest.param("Mean", [], {}, "at least 1", id="a variadic operand without any"),
        pytest.param("Reshape", [TensorFact(FLOAT, (4,)), TensorFact(INT, ())], {}, "rank 0", id="a list is a vector"),
        pytest.param("Tile", [TensorFact(FLOAT, (4,)), TensorFact(INT, (1, 1))], {}, "rank 2", id="no matrix"),
        pytest.param("Clip", [TensorFact(FLOAT, (4,)), TensorFact(FLOAT, (2,))], {}, "2 elements", id="one element"),
        pytest.param("LeakyRelu", [TensorFact(FLOAT, (4,))], {"alpha": "1"}, "expected float", id="type of attribute"),
        pytest.param("Softmax", [TensorFact(FLOAT, (4,))], {"axis": (0,)}, "expected int", id="a list as a number"),
    ],
)
def test_a_node_is_held_against_the_signature_before_its_shape_rule(op_type, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(registry.op_defs()[op_type], operands, attributes, 1)


def test_clip_accepts_a_vector_of_one_element_as_scalar():
    (found,) = Inference().infer_operator(
        registry.op_defs()["Clip"], [TensorFact(FLOAT, (4,)), TensorFact(FLOAT, (1,))], {}, 1
    )
    assert found == TensorFact(FLOAT, (4,))


def test_more_results_than_an_operator_has_are_refused():
    with pytest.raises(ShapeError, match="2 results, expected at most 1"):
        Inference().infer_operator(registry.op_defs()["Relu"], [TensorFact(FLOAT, (4,))], {}, 2)
