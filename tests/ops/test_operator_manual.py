"""Op pages as a person reads them, all of it taken from the pages themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from graphport.ops import operator_manual, registry
from graphport.ops.declare import IMPORT_RULES
from graphport.ops.rule_language.rule import ImportRule
from tests.every import every

OP_DEFS = registry.op_defs()
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Relu", "Relu(x: T) → y: T"),
        ("LeakyRelu", "LeakyRelu(x: T, *, alpha: float = 0.01) → y: T"),
        ("Concat", "Concat(*inputs: T, *, axis: int) → concat_result: T"),
        ("If", "If(cond: B, *, then_branch: Body, else_branch: Body) → *outputs: V"),
        ("Clip", "Clip(input: T, min: T | None = None, max: T | None = None) → output: T"),
    ],
)
def test_signatures(name, expected):
    assert operator_manual.signature(OP_DEFS[name]) == expected


@every("name", sorted(OP_DEFS))
def test_signature_lists_every_operand_and_attribute(name):
    op_def = OP_DEFS[name]
    said = operator_manual.signature(op_def, width=40)
    for argument in [*(operand.name for operand in op_def.signature.operands), *op_def.signature.keywords]:
        assert f"    {argument}: " in said or f"    *{argument}: " in said or "\n" not in said
    assert "<class" not in said
    assert "graphport." not in said.removeprefix("graphport.Expression")
    assert said.endswith(f"→ {said.rpartition('→ ')[2]}")


def test_long_signature_has_one_line_per_argument():
    op_def = OP_DEFS["Gemm"]
    assert operator_manual.signature(op_def, width=40).splitlines()[:3] == ["Gemm(", "    a: T,", "    b: T,"]
    assert "\n" not in operator_manual.signature(op_def, width=4000)


def test_unrecorded_op_type_emits_the_operators_of_its_rule():
    registry.load("pnnx")
    seen = {op_type for op_type, row in operator_manual._recorded_emissions()["lower"]["pnnx"].items() if row["emits"]}
    rows = {
        op_type: rule
        for (dialect, op_type), rules in IMPORT_RULES.items()
        if dialect == "pnnx" and isinstance(rule := registry.row(rules[0].function), ImportRule)
    }
    told = operator_manual.reads("pnnx")
    unseen = [op_type for op_type in rows if op_type not in seen]
    assert unseen
    for op_type in unseen:
        others = [other for other, rule in rows.items() if rule is rows[op_type] and other in seen]
        if others:
            assert told[op_type].operators in {told[other].operators for other in others}
        else:
            assert {name for name in rows[op_type].operators if name in OP_DEFS} <= set(told[op_type].operators)


def test_element_types_are_by_variable():
    assert operator_manual.element_types(OP_DEFS["Relu"])["T"] == sorted(
        ["bfloat16", "float16", "float32", "float64", "int16", "int32", "int64", "int8"]
    )


@every("name", sorted(OP_DEFS))
def test_every_definition_is_in_a_family_with_a_title(name):
    family = operator_manual.family(OP_DEFS[name])
    assert family in registry.families()
    assert operator_manual.family_title(family)
    assert OP_DEFS[name] in operator_manual.by_family()[family]


def test_versions_list_the_forms_read_by_rules():
    assert operator_manual.older_forms(OP_DEFS["Softmax"]) == (12,)
    assert (
        operator_manual.versions(OP_DEFS["Softmax"])
        == "Unchanged since opset 13; forms up to opset 12 are read by rules."
    )
    assert operator_manual.versions(OP_DEFS["Abs"]).startswith("Unchanged since opset ")


@pytest.mark.parametrize("dialect", ["nnef", "onnx"])
def test_every_op_type_that_is_read_is_listed(dialect):
    words = operator_manual.registered(dialect)
    registry.load(dialect)
    assert {op_type for spoken, op_type in IMPORT_RULES if spoken == dialect} <= set(words)
    assert set(registry.patterns(dialect)) <= set(words)
    assert {name for names in words.values() for name in names} <= set(OP_DEFS)


def test_op_types_that_functions_state_name_their_operators():
    spoken = operator_manual.registered("nnef")
    assert spoken["relu"] == ("Relu",)
    assert spoken["sqr"] == ("Mul",)
    assert "ConvTranspose" in spoken["deconv"]
    assert operator_manual.registered("onnx")["Upsample"] == ("Resize",)
    assert operator_manual.registered("onnx")["Relu"] == ("Relu",)


def test_emitted_table_matches_the_rules():
    """`make emitted` writes the table again; what only larger suites reach, or a rule that is new, has no row yet."""
    unseen = Counter[str]()
    for dialect in registry.names():
        for op_type, emitted in operator_manual.reads(dialect).items():
            assert set(emitted.operators) <= set(OP_DEFS), (dialect, op_type)
            assert emitted.always <= set(emitted.operators)
            assert not emitted.test or (ROOT / emitted.test).exists(), emitted.test
            unseen[dialect] += not emitted.test and not registry.patterns(dialect).get(op_type) and dialect != "onnx"
    total = sum(len(operator_manual.reads(dialect)) for dialect in registry.names())
    assert unseen.total() < total / 3, unseen


@pytest.mark.parametrize(
    ("dialect", "op_type", "always"),
    [
        ("pnnx", "nn.Conv2d", {"Conv"}),
        ("com.microsoft", "MatMulNBits", {"DequantizeLinear", "MatMul", "Transpose"}),
        ("pytorch", "aten.addmm.default", {"Add", "MatMul"}),
        ("tract", "tract_core_gather", {"Gather"}),
        ("openvino", "opset1.Convolution", {"Conv"}),
        ("tflite", "CONV_2D", {"Conv", "Transpose"}),
    ],
)
def test_op_types_list_the_operators_always_emitted(dialect, op_type, always):
    assert operator_manual.reads(dialect)[op_type].always == always


def test_an_op_type_counts_for_the_operator_that_fewest_op_types_need():
    assert "nn.LSTM" in operator_manual.spellings("pnnx")["LSTM"].reads
    assert "nn.LSTM" not in operator_manual.spellings("pnnx")["Reshape"].reads


def test_spellings_of_an_operator():
    relu, branch = operator_manual.spellings("nnef")["Relu"], operator_manual.spellings("nnef")["Loop"]
    assert (relu.reads, relu.writes, relu.patterns, relu.direction) == (
        ("relu",),
        True,
        ("relu(x)",),
        "read, write",
    )
    assert (branch.reads, branch.writes, branch.patterns, branch.direction) == ((), False, (), "")
    assert "separable_conv" in operator_manual.spellings("nnef")["Conv"].reads
    assert all(spelling.writes and spelling.reads for spelling in operator_manual.spellings("onnx").values())


@pytest.mark.parametrize(
    ("dialect", "op_type", "operators", "always"),
    [
        pytest.param(
            "pytorch", "aten.group_norm.default", {"GroupNormalization"}, {"GroupNormalization"}, id="overload"
        ),
        pytest.param("pytorch", "aten.clamp_min", {"Clip", "Max", "Min"}, set(), id="word of a word"),
        pytest.param("onnx", "Dropout", {"Dropout", "Where"}, {"Dropout"}, id="older form"),
        pytest.param("tract", "cos", {"Cos"}, {"Cos"}, id="word of the standard"),
        pytest.param("com.microsoft", "FastGelu", {"Gelu", "Add"}, {"Gelu"}, id="two arrows"),
    ],
)
def test_reading_includes_operators_of_all_rule_branches(dialect, op_type, operators, always):
    found = operator_manual.reading(dialect, op_type)
    assert found is not None
    assert set(found.operators) == operators
    assert found.always == always


def test_tract_inherits_the_recorded_emissions_of_nnef():
    registry.load("tract")
    standard, patterns = operator_manual.reads("nnef"), registry.patterns("tract")
    shared = [op_type for op_type in standard if ("tract", op_type) not in IMPORT_RULES and op_type not in patterns]
    assert len(shared) > 50
    for op_type in shared:
        own = operator_manual.reading("tract", op_type)
        assert own is not None
        assert set(own.operators) >= set(standard[op_type].operators), op_type
        assert own.always <= standard[op_type].always, op_type


def test_an_op_type_without_consumer_is_not_reported():
    assert operator_manual.reading("pytorch", "aten.no_such_word.default") is None
    assert operator_manual.reading("onnx", "NoSuchOperator") is None


@pytest.mark.parametrize("dialect", ["pytorch", "pnnx", "ncnn"])
def test_is_operand_matches_rules_that_return_an_operand(dialect):
    told = [op_type for op_type, emitted in operator_manual.reads(dialect).items() if emitted.is_operand]
    rules = [
        registry.row(IMPORT_RULES[dialect, op_type][0].function)
        for op_type in told
        if (dialect, op_type) in IMPORT_RULES
    ]
    rows = [rule for rule in rules if isinstance(rule, ImportRule) and rule.is_operand]
    assert rows
    for rule in rows:
        value = object()
        assert rule(None, value) is value


@pytest.mark.parametrize(
    ("dialect", "op_type", "operators"),
    [("pytorch", "aten.absolute", {"Abs"}), ("pytorch", "aten.special_expit", {"Sigmoid"})],
)
def test_alias_of_another_dialect_emits_the_operators_of_its_target(dialect, op_type, operators):
    assert set(operator_manual.reads(dialect)[op_type].operators) == operators
