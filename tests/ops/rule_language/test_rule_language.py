"""Rows: every construct in both directions, what is held against the pages, and faults with their places."""

import inspect

import numpy as np
import pytest

from graphport.backends import reference
from graphport.conversion.export import export_graph
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES, ShapeError, UnsupportedError
from graphport.ops.infer import Inference
from graphport.ops.rule_language.mirror import invert_rule
from graphport.ops.rule_language.rule import Alias, ExportRule, ImportRule
from graphport.ops.rule_language.text import Parameter, RuleError, expand_op_types, parameters, parse_rules

OP_DEFS = registry.op_defs()


def parse_rule(text):
    (row,) = parse_rules(text)
    return row


def lowering(text, functions=None, words=None):
    return ImportRule(parse_rule(text), functions or {}, words)


def export_rule_of(text, words=None):
    row = parse_rule(text)
    return ExportRule(row, OP_DEFS[row.op_types[0]], {}, words)


class Scene:
    """A graph with inputs x and y, in which a rule makes nodes."""

    def __init__(self, dtype=DType.FLOAT32):
        self.graph = Graph()
        self.x, self.y = (self.graph.add_input(name, TensorFact(dtype, (2, 3))) for name in "xy")
        self.b = Builder(Inference(), self.graph)

    def constant(self, data, dtype):
        array = np.array(data, dtype)
        fact = TensorFact(DType.of(array.dtype), array.shape, tuple(array.reshape(-1).tolist()))
        return self.graph.add_constant("c", fact, storage_of(array))

    def text(self, value):
        """A value as a term of operators, with constants as numbers."""
        if value.producer is None:
            return value.name if value.storage is None else str(value.storage.numpy().tolist())
        node = value.producer
        operands = ["" if x is None else self.text(x) for x in node.inputs]
        return f"{node.op_type}({', '.join([*operands, *(f'{k}={v}' for k, v in node.attributes.items())])})"


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        pytest.param("w(x) -> Relu(x)", {}, "Relu(x)", id="operand"),
        pytest.param("w(x) -> Sub(x, Tanh(x))", {}, "Sub(x, Tanh(x))", id="nested"),
        pytest.param("w(x) -> Mul(d := Neg(x), d)", {}, "Mul(Neg(x), Neg(x))", id="bound"),
        pytest.param("w(x, a=0.5) -> Shrink(x, lambd=a, bias=-a)", {}, "Shrink(x, lambd=0.5, bias=-0.5)", id="default"),
        pytest.param("w(x, *, a) -> Elu(x, alpha=2 * (a + 1) / 4 - 1)", {"a": 3}, "Elu(x, alpha=1.0)", id="arithmetic"),
        pytest.param("w(x, a: float) -> Mul(x, a)", {"a": 2}, "Mul(x, 2.0)", id="number as an operand"),
        pytest.param("w(x) -> Unsqueeze(x, [0, -1])", {}, "Unsqueeze(x, [0, -1])", id="list as an operand"),
        pytest.param("w(x) -> Transpose(x, perm=(1, 0))", {}, "Transpose(x, perm=(1, 0))", id="list as an attribute"),
        pytest.param("w(x, a=1) -> a > 0: Relu(x)\n    -> Neg(x)", {"a": 0}, "Neg(x)", id="guard that does not hold"),
        pytest.param("w(x, a=1) -> a > 0: Relu(x)\n    -> Neg(x)", {}, "Relu(x)", id="guard that holds"),
        pytest.param("w(x, m='a') -> m in ('a', 'b') and not m == 'c': Relu(x)", {}, "Relu(x)", id="guard of texts"),
        pytest.param("w(x, a=None) -> Neg(x) if a is None else Relu(x)", {}, "Neg(x)", id="choice"),
        pytest.param("w(x, dim=0) -> Softmax(x, axis=axis(dim, x))", {"dim": -1}, "Softmax(x, axis=1)", id="axis"),
        pytest.param("w(x) -> Cast(x, to=int64)", {}, "Cast(x, to=int64)", id="element type"),
        pytest.param("w(x) -> cast(x, float32)", {}, "x", id="function of rows"),
        pytest.param(
            "w(x, keep=True) -> ReduceSum(x, [1], keepdims=keep)", {}, "ReduceSum(x, [1], keepdims=1)", id="flag"
        ),
        pytest.param("w(x, old: ignored = 3) -> Relu(x)", {"old": 4}, "Relu(x)", id="of no account"),
        pytest.param("w(*x) -> Concat(*x, axis=-1)", {}, "Concat(x, axis=-1)", id="all that is left"),
        pytest.param("w(x) -> Max(Relu(x), twice(x))", {}, "Max(Relu(x), Add(x, x))", id="function of a dialect"),
        pytest.param("w(x) -> Neg(aten::w(x, a=1))", {}, "Neg(Relu(x))", id="other word"),
        pytest.param("w(x) -> y = Neg(x); Add(y, y)", {}, "Add(Neg(x), Neg(x))", id="named first"),
        pytest.param("w(x) -> a, b = both(x); Sub(b, a)", {}, "Sub(Neg(x), x)", id="several names"),
        pytest.param(
            "w(x) -> a, b = Split(x, [1, 1], axis=0); Max(a, b)",
            {},
            "Max(Split(x, [1, 1], axis=0), Split(x, [1, 1], axis=0))",
            id="names of several results",
        ),
        pytest.param(
            "w(x, k=2) -> half = k / 4; half > 1: Relu(x)\n    -> Elu(x, alpha=half)",
            {},
            "Elu(x, alpha=0.5)",
            id="named before a guard, and known behind the next arrow",
        ),
        pytest.param("w(x)\n    # a remark\n    -> Relu(x)", {}, "Relu(x)", id="two lines"),
    ],
)
def test_import_rule_converts_an_op_type_to_operators(text, attributes, expected):
    scene = Scene()
    functions = {"twice": lambda b, x: b(OP_DEFS["Add"], x, x), "both": lambda b, x: (x, b(OP_DEFS["Neg"], x))}
    words = {"aten::w": lambda b, _is_last, operands, _attributes: b(OP_DEFS["Relu"], *operands)}
    answer = lowering(text, functions, words.get)(scene.b, scene.x, **attributes)
    assert scene.text(registry.results(answer)[0]).replace("True", "1") == expected


def test_op_types_may_be_python_keywords():
    scene = Scene()
    words = {name: lambda b, _is_last, operands, _: b(OP_DEFS["Add"], *operands) for name in ("and", "or")}
    answer = lowering("w(x) -> x is not None and (x is x): or(and(x, x), x)", {}, words.get)(scene.b, scene.x)
    assert scene.text(answer) == "Add(Add(x, x), x)"


def test_alias_forwards_operands_and_attributes():
    scene = Scene()
    given = []
    words = {"other::w": lambda _b, *told: given.append(told)}
    Alias(parse_rule("w -> other::w"), {}, words.get)(scene.b, scene.x, None, alpha=2)
    assert given == [(True, (scene.x, None), {"alpha": 2})]
    with pytest.raises(RuleError, match="other::v is not an op type") as told:
        _ = Alias(parse_rule("w -> other::v"), {}, words.get).operators
    assert_points(told.value, "other::v")


def test_literal_has_the_dtype_of_the_adjacent_operand():
    scene = Scene()
    condition = scene.graph.add_input("c", TensorFact(DType.BOOL, (2, 3)))
    answer = lowering("w(c, x) -> Where(c, x, 0)")(scene.b, condition, scene.x)
    assert answer.producer.inputs[2].fact.dtype is DType.FLOAT32
    counted = lowering("w(x) -> ReduceSum(x, 1)")(scene.b, scene.x)
    assert counted.producer.inputs[1].fact.dtype is DType.INT64


def test_scalar_parameter_accepts_constant_but_not_computed_tensors():
    scene = Scene()
    rule = lowering("w(x, alpha=1.0) -> Elu(x, alpha=alpha)")
    answer = rule(scene.b, scene.x, alpha=scene.constant(2, np.int64))
    assert answer.producer.attributes == {"alpha": 2.0}
    with pytest.raises(UnsupportedError, match="y is computed"):
        rule(scene.b, scene.x, alpha=scene.y)


def test_several_results():
    scene = Scene()
    first, second = lowering("w(x) -> (Sin(x), Cos(x))")(scene.b, scene.x)
    assert (scene.text(first), scene.text(second)) == ("Sin(x)", "Cos(x)")
    scene.b.count = 2
    values, places = lowering("w(x) -> TopK(x, [1])")(scene.b, scene.x)
    assert values.producer is places.producer


def test_nested_op_type_passes_its_first_result():
    registry.load("pnnx")
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    rule = registry.lowering("pnnx", "torch.aminmax")
    answer = rule(Builder(Inference(), graph, count=2), x, dim=1)
    assert [value.producer.op_type for value in answer] == ["ReduceMin", "ReduceMax"]


def test_op_type_is_rejected_if_no_guard_holds():
    scene = Scene()
    with pytest.raises(UnsupportedError, match=r"where alpha > 0 or alpha < -9"):
        lowering("w(x, alpha) -> alpha > 0: Relu(x)\n    -> alpha < -9: Neg(x)")(scene.b, scene.x, -1)


@pytest.mark.parametrize(
    ("operands", "attributes"),
    [((), {}), (2, {}), (1, {"b": 1}), (1, {"x": 1}), (1, {"alpha": 1, "beta": 2})],
)
def test_rule_rejects_arguments_like_a_python_function(operands, attributes):
    scene = Scene()
    rule = lowering("w(x, *, alpha=1.0) -> Elu(x, alpha=alpha)")
    given = (scene.x,) * (operands or 0)
    with pytest.raises(ShapeError) as told:
        rule(scene.b, *given, **attributes)
    with pytest.raises(TypeError) as expected:
        inspect.signature(rule).bind(scene.b, *given, **attributes)
    assert str(told.value).endswith(str(expected.value))


def test_the_signature_is_that_of_a_function():
    assert str(inspect.signature(lowering("w(x, y=None, *z, k: float = 2) -> f(x, y, *z, k)"))) == (
        "(builder, /, x, y=None, *z, k: 'float' = 2)"
    )


# ── on the way back ───────────────────────────────────────────────────────────────────────────────────────────────────


def emitted(op_type):
    return lambda b, _is_last, operands, attributes: b.emit(op_type, *operands, **attributes)[0]


def exported(text, node, scene):
    scene.graph.append(node)
    rule = export_rule_of(text, emitted)
    return rule(Builder(Inference(), scene.graph, node, dialect="d"), *node.inputs, **node.attributes)


def test_export_rule_fills_in_attribute_defaults():
    scene = Scene()
    answer = exported("Celu -> alpha > 0: mul(elu(x, a=alpha), x)", Node("Celu", [scene.x], [Value("z")]), scene)
    assert scene.text(answer) == "mul(elu(x, a=1.0), x)"


def test_a_rule_states_an_operator_in_others():
    scene = Scene()
    answer = exported("Mish -> Mul(x, Tanh(Softplus(x)))", Node("Mish", [scene.x], [Value("z")]), scene)
    assert scene.text(answer) == "Mul(x, Tanh(Softplus(x)))"


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        pytest.param("Celu -> alpha > 0: celu(x, alpha)", {"alpha": -1.0}, id="a guard that does not hold"),
        pytest.param("Celu -> celu(x)", {"alpha": 2.0}, id="an attribute that the row does not name"),
    ],
)
def test_export_rule_with_an_unsupported_attribute_returns_none(text, attributes):
    scene = Scene()
    assert exported(text, Node("Celu", [scene.x], [Value("z")], attributes), scene) is None


def test_an_operand_that_the_rule_does_not_name_has_to_be_absent():
    scene = Scene()
    bound = scene.constant(1, np.float32)
    assert exported("Clip -> max(input, min)", Node("Clip", [scene.x, bound], [Value("z")]), scene) is not None
    assert exported("Clip -> max(input, min)", Node("Clip", [scene.x, bound, bound], [Value("u")]), scene) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("elu(x, alpha=1.0) <-> Elu(x, alpha=alpha)", "Elu -> elu(x, alpha)", id="places"),
        pytest.param("elu(x, *, a=1.0) <-> Elu(x, alpha=a)", "Elu -> elu(x, a=alpha)", id="another name"),
        pytest.param("add, plus(x, y) <-> Add(*led(x, y))", "Add -> add(a, b)", id="operands that are brought to it"),
        pytest.param(
            "cat(*x, axis) <-> Concat(*x, axis=axis)", "Concat -> cat(*inputs, axis=axis)", id="all that is left"
        ),
        pytest.param(
            "gelu(x) <-> Gelu(x, approximate='tanh')", "Gelu -> approximate == 'tanh': gelu(x)", id="constant"
        ),
        pytest.param("and(x, y) <-> And(true(x), true(y))", "And -> and(a, b)", id="each operand brought to it"),
        pytest.param("if(c, x, y) <-> Where(c, *wide(x, y))", "Where -> if(condition, x, y)", id="some brought to it"),
        pytest.param("sub(y, x) <-> Sub(x, y)", "Sub -> sub(b, a)", id="other places"),
    ],
)
def test_a_rule_that_is_read_in_both_directions_has_a_way_back(text, expected):
    assert invert_rule(parse_rule(text), by_name=False).text == expected


def test_underscore_expands_to_the_op_type():
    found = [each.text for each in expand_op_types(parse_rule("opset1.Sin, Cos(x) -> _(Neg(x))"))]
    assert found == ["opset1.Sin(x) -> Sin(Neg(x))", "Cos(x) -> Cos(Neg(x))"]
    assert [each.text for each in expand_op_types(parse_rule("Sin, Cos -> _(input)"))] == [
        "Sin -> Sin(input)",
        "Cos -> Cos(input)",
    ]
    assert [each.text for each in expand_op_types(parse_rule("v, w -> _"))] == ["v -> v", "w -> w"]
    row = parse_rule("w(x) -> to_(x)")
    assert list(expand_op_types(row)) == [row]


def test_inverted_rule_may_name_all_parameters():
    row = parse_rule("F.elu(input, alpha=1.0) <-> Elu(input, alpha=alpha)")
    assert invert_rule(row, by_name=True).text == "Elu -> F.elu(input=x, alpha=alpha)"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        pytest.param("w(x) <-> Neg(Relu(x))", "Relu", id="nested"),
        pytest.param("w(x, a=1.0) <-> Elu(x, alpha=2 * a)", "2 * a", id="arithmetic"),
        pytest.param("w(x) <-> x", "x", id="no operator"),
        pytest.param("w(x) <-> Add(x, 1)", "1)", id="an operand that is a number"),
    ],
)
def test_non_invertible_rule_reports_its_location(text, at):
    with pytest.raises(RuleError, match="can be inverted") as told:
        invert_rule(parse_rule(text), by_name=False)
    assert_points(told.value, at)


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "at"),
    [
        pytest.param("w(x)", "", id="no arrow"),
        pytest.param("w(x) -> ", "", id="nothing behind the arrow"),
        pytest.param("w(x) -> x > 0: ", "x > 0", id="nothing behind the guard"),
        pytest.param("w(x) -> a: b: Relu(x)", ": Relu", id="two guards"),
        pytest.param("w, (x) -> Relu(x)", "", id="no word"),
        pytest.param("w(x -> Relu(x)", "", id="open parameters"),
        pytest.param("w(x, a) <-> a > 0: Elu(x)", "", id="a guard in both directions"),
    ],
)
def test_a_malformed_rule_is_refused_when_it_is_registered(text, at):
    with pytest.raises(RuleError) as told:
        list(parse_rules(text))
    assert_points(told.value, at)


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        pytest.param("w(x) -> Relu(z)", "z)", "z is not defined in the row; defined: x", id="unknown name"),
        pytest.param("w(x) -> Mul(d, d := Neg(x))", "d, d", "not defined", id="bound too late"),
        pytest.param("w(x) -> Relux(x)", "Relux", "neither an operator", id="unknown operator"),
        pytest.param(
            "w(x) -> Elu(x, beta=1)", "1)", "Elu has no attribute beta; attributes: alpha", id="unknown attribute"
        ),
        pytest.param("w(x) -> Concat(x)", "Concat", "lacks the required attributes axis", id="attribute missing"),
        pytest.param("w(x) -> Neg(Add(x))", "Add", "1 operands, expected at least 2", id="operand missing"),
        pytest.param("w(x) -> Neg(Relu(x, x))", "x))", "2 operands, expected at most 1", id="operand too many"),
        pytest.param("w(x) -> Relu(x", "", "not valid Python syntax", id="open bracket"),
        pytest.param("w(x) -> y = ; Relu(y)", "y =", "not valid Python syntax", id="binding without a term"),
        pytest.param("w(x) -> x; Relu(x)", "x; R", "expected a binding", id="binding without a name"),
        pytest.param("w(x) -> a, b = Neg(x); Relu(a)", "Neg", "expected at most 1", id="more names than results"),
        pytest.param("w(x) -> a, b = x; Relu(a)", "", "several names require a call", id="names of no call"),
        pytest.param("w(x) -> Relu(x.y)", "x.y", "not supported in a row", id="attribute of a value"),
        pytest.param("w(x) -> [Relu(i) for i in x]", "[", "not supported in a row", id="loop"),
        pytest.param("w(x, y) -> Relu(x)", "", "y is not used", id="dropped"),
        pytest.param("w(x, y: str) -> Add(x, y)", "y: str", "not a kind of parameter", id="kind"),
        pytest.param("w(x, y=z) -> Add(x, y)", "z)", "not a literal", id="default"),
        pytest.param("w(x, 1) -> Relu(x)", "1)", "invalid parameter list", id="parameters"),
        pytest.param("w(x, **y) -> Relu(x)", "x, **", "invalid parameter list", id="all attributes"),
        pytest.param("w(*x) -> Concat(*x, x, axis=0)", "Concat", "must be the last one", id="behind a run"),
    ],
)
def test_invalid_rule_reports_its_location(text, at, reason):
    with pytest.raises(RuleError, match=reason) as told:
        _ = lowering(text).operators
    assert_points(told.value, at)


def test_export_rule_rejects_declared_parameters():
    with pytest.raises(RuleError, match="Relu has its parameters from its definition"):
        _ = export_rule_of("Relu(x) -> relu(x)", emitted).operators


def assert_points(error, at):
    _, row, mark = str(error).split("\n")
    if at:
        assert row[mark.index("^") :].startswith(at)
    assert row.strip()


def test_parameters():
    assert parameters(parse_rule("w(x, a: number, b=1 / 4, *, c='d', e: ignored = None) -> x")) == (
        Parameter("x"),
        Parameter("a", "number"),
        Parameter("b", "float", 0.25, is_required=False),
        Parameter("c", "any", "d", is_required=False, is_keyword=True),
        Parameter("e", "ignored", None, is_required=False, is_keyword=True),
    )


def test_remarks_and_lines_further_in():
    found = list(parse_rules("# of no account\na, b(x)\n    -> p: Relu(x)\n    -> Neg(x)\n\nc(x) -> Relu(x)\n"))
    assert [row.op_types for row in found] == [("a", "b"), ("c",)]
    assert [each.meaning[1] for each in found[0].alternatives] == ["Relu(x)", "Neg(x)"]


def test_every_rule_of_every_dialect_fits_the_definitions():
    for dialect in registry.names():
        registry.load(dialect)
    rules = [rule.function for table in (IMPORT_RULES, EXPORT_RULES) for found in table.values() for rule in found]
    found = {rule for each in rules if isinstance(rule := registry.row(each), ImportRule | ExportRule)}
    assert len(found) > 30
    for rule in found:
        assert rule.operators is not None


def test_unused_attributes_are_ignored():
    scene = Scene()
    node = Node("Celu", [scene.x], [Value("z")], {"alpha": 2.0})
    assert exported("Celu(alpha: ignored) -> celu(x)", node, scene) is not None
    with pytest.raises(RuleError, match="has its parameters from its definition"):
        _ = export_rule_of("Celu(beta: ignored) -> celu(x)", emitted).operators


def test_dialect_op_type_may_have_the_name_of_an_operator():
    scene = Scene()
    row = parse_rule("Relu -> Relu(x)")
    node = scene.graph.append(Node("Relu", [scene.x], [Value("z")]))
    rule = ExportRule(row, OP_DEFS["Relu"], {}, emitted, has_operators=False)
    answer = rule(Builder(Inference(), scene.graph, node, dialect="d"), scene.x)
    assert (answer.producer.dialect, answer.producer.op_type) == ("d", "Relu")
    assert rule.operators == ("Relu",)


def test_export_rule_skips_nodes_with_more_results():
    scene = Scene()
    node = scene.graph.append(Node("Dropout", [scene.x], [Value("z"), Value("mask")]))
    rule = export_rule_of("Dropout -> copy(data)", emitted)
    assert rule(Builder(Inference(), scene.graph, node, dialect="d", count=2), scene.x) is None


def test_literal_without_dtype_is_rejected():
    with pytest.raises(RuleError, match=r"like\(x, 0\)") as told:
        _ = lowering("w(x) -> Where(x, 0, 1)").operators
    assert_points(told.value, "0, 1)")
    assert lowering("w(x) -> Where(x, like(x, 0), 1)").operators == ("Where",)


# ── decompositions ────────────────────────────────────────────────────────────────────────────────────────────────────

DECOMPOSED = [op_def for op_def in OP_DEFS.values() if op_def.decomposes]
OPERANDS = {
    "x": np.linspace(-7, 7, 24, dtype=np.float32).reshape(2, 3, 4),
    "input": np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4),
    "scores": np.sin(np.arange(24, dtype=np.float32)).reshape(2, 3, 4),
    "labels": np.array([[0, 1, 2, 1], [2, 2, 0, 1]], np.int64),
}


@pytest.mark.parametrize("op_def", DECOMPOSED, ids=lambda op_def: op_def.name)
@pytest.mark.parametrize("attribute", [None, 0.5, 2.0], ids=str)
def test_decomposition_matches_the_operator_definition(op_def, attribute):
    given = [OPERANDS[each.name] for each in op_def.signature.operands if not each.is_optional]
    attributes = {} if attribute is None or "alpha" not in op_def.signature.keywords else {"alpha": attribute}
    graph = Graph()
    operands = [graph.add_input(f"x{i}", TensorFact(DType.of(x.dtype), x.shape)) for i, x in enumerate(given)]
    node = graph.append(Node(op_def.name, operands, [Value("y") for _ in op_def.outputs], attributes))
    rule = ExportRule(parse_rule(f"{op_def.name} -> {op_def.decomposes}"), op_def, {})
    answer = rule(Builder(Inference(), graph, node, count=len(op_def.outputs)), *operands, **attributes)
    assert op_def.name not in rule.operators
    for value in registry.results(answer):
        graph.add_output(value)
    found = reference.prepare(graph).run({value.name: x for value, x in zip(operands, given, strict=True)})
    expected = registry.results(op_def(*given, **attributes))
    for value, array in zip(registry.results(answer), expected, strict=True):
        np.testing.assert_allclose(found[value.name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("nnef", ["div", "elu", "mul"]),
        ("tract", ["div", "elu", "mul"]),
        ("openvino", ["opset1.Divide", "opset1.Elu", "opset1.Multiply"]),
    ],
)
def test_dialects_without_an_op_type_share_the_decomposition_of_the_definition(dialect, words):
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 3)))
    graph.add_output(graph.append(Node("Celu", [x], [Value("y")], {"alpha": 2.0})).output)
    found, findings = export_graph(graph, dialect)
    assert not findings
    assert [node.op_type for node in found] == words
