"""Laws that every page keeps, held against the schemas of the `onnx` package."""

import inspect
from functools import cache
from typing import get_args

import numpy as np
import onnx
import pytest
from onnx.defs import OpSchema

from graphport.core.dtypes import DType
from graphport.ops import pattern, registry
from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES, OPSET
from tests.every import every

OURS = "graphport"
OP_DEFS = sorted(name for name, op_def in registry.op_defs().items() if op_def.domain != OURS)
ONNX_NAMES = {"double": "float64", "float": "float32"}
FLOAT8 = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}


def schema_of(name: str, opset: int = OPSET) -> OpSchema:
    return onnx.defs.get_schema(name, opset, registry.op_defs()[name].domain)


def dtypes(allowed: list[str]) -> set[DType]:
    """Element types of `tensor(float)`, `seq(tensor(float))`, …"""
    inner = {text.replace("optional(", "").replace("seq(", "").replace("tensor(", "").rstrip(")") for text in allowed}
    return {DType.of(ONNX_NAMES.get(text, FLOAT8.get(text, text))) for text in inner if text}


@cache
def history() -> dict[tuple[str, str], set[int]]:
    """The opsets in which each operator of a domain was defined anew."""
    found: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    return found


def lower_name(name: str) -> str:
    return name.lower()


@every("name", OP_DEFS)
def test_operands_are_those_of_the_schema(name):
    schema, signature = schema_of(name), registry.op_defs()[name].signature
    expected = [
        (lower_name(item.name), item.option == OpSchema.FormalParameterOption.Variadic) for item in schema.inputs
    ]
    given = [(operand.name, operand.is_variadic) for operand in signature.operands]
    # A variadic operand is named after its content; ONNX's names for them are `data_0` and the like.
    assert [item for item in given if not item[1]] == [item for item in expected if not item[1]]
    assert len(given) == len(expected)
    optional = [item.option == OpSchema.FormalParameterOption.Optional for item in schema.inputs]
    assert [operand.is_optional for operand in signature.operands] == optional


@every("name", OP_DEFS)
def test_attributes_are_those_of_the_schema(name):
    schema, keywords = schema_of(name), registry.op_defs()[name].signature.keywords
    assert set(keywords) == set(schema.attributes)
    for attribute in schema.attributes.values():
        keyword = keywords[attribute.name]
        assert keyword.is_required == attribute.required, attribute.name
        default = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None
        default = default.decode() if isinstance(default, bytes) else default
        if isinstance(default, list):
            default = tuple(item.decode() if isinstance(item, bytes) else item for item in default)
        if keyword.annotation is DType or DType in get_args(keyword.annotation):
            continue
        if isinstance(default, float):
            assert np.float32(keyword.default) == np.float32(default), attribute.name
        else:
            assert keyword.default == default, attribute.name


@every("name", OP_DEFS)
def test_types_are_those_of_the_schema(name):
    schema, signature = schema_of(name), registry.op_defs()[name].signature
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for operand, item in zip(signature.operands, schema.inputs, strict=True):
        assert operand.types is not None, operand.name
        assert operand.types.name == item.type_str, operand.name
        assert operand.types.dtypes == dtypes(allowed.get(item.type_str, [item.type_str])), operand.name


@every("name", OP_DEFS)
def test_results_are_those_of_the_schema(name):
    schema, op_def = schema_of(name), registry.op_defs()[name]
    variadic = [item.option == OpSchema.FormalParameterOption.Variadic for item in schema.outputs]
    assert [text.startswith("*") for text in op_def.outputs] == variadic
    expected = [lower_name(item.name) for item, many in zip(schema.outputs, variadic, strict=True) if not many]
    assert [text for text in op_def.outputs if not text.startswith("*")] == expected


@every("name", OP_DEFS)
def test_shape_rule_has_the_signature_of_the_definition(name):
    op_def = registry.op_defs()[name]
    view = inspect.get_annotations(op_def.shape).get("op")
    if view is not None:
        assert view == f"{name}View[TensorFact]"
        return
    rule = inspect.signature(op_def.shape)
    operands = [None] * len(op_def.signature.operands)
    rule.bind(*operands, **dict.fromkeys(op_def.signature.keywords))


@every("name", OP_DEFS)
def test_every_schema_version_is_unchanged_or_has_a_rule(name):
    op_def = registry.op_defs()[name]
    registry.load("onnx")
    versions = {version for version in history()[op_def.domain, name] if version <= OPSET}
    rules = [rule.until for rule in IMPORT_RULES.get(("onnx", name), ())]
    ruled = {version for version in versions if any(until is None or version <= until for until in rules)}
    assert versions - ruled - {version for version in versions if version >= op_def.since} == set()


@every("name", OP_DEFS)
def test_no_rule_reaches_into_the_versions_that_are_unchanged(name):
    op_def = registry.op_defs()[name]
    registry.load("onnx")
    for rule in IMPORT_RULES.get(("onnx", name), ()):
        assert rule.until is None or rule.until < op_def.since


@every("name", OP_DEFS)
def test_manual_states_shapes_and_source(name):
    manual = registry.op_defs()[name].manual
    assert "Source: " in manual
    assert "Shapes: " in manual
    version = schema_of(name).since_version
    assert f"{name}-{version}" in manual


@every("name", OP_DEFS)
def test_index_operands_are_operands(name):
    op_def = registry.op_defs()[name]
    assert set(op_def.index_operands) <= {operand.name for operand in op_def.signature.operands}


@every(
    ("name", "dialect", "text"),
    [(n, d, t) for n in OP_DEFS for d, said in registry.op_defs()[n].spellings.items() for t in said],
)
def test_patterns_fit_their_definition(name, dialect, text):
    pattern.check(registry.op_defs()[name], pattern.parse(text))


@pytest.mark.parametrize("dialect", ["nnef"])
def test_every_op_type_has_one_import_rule(dialect):
    registry.load(dialect)
    for op_type, said in registry.patterns(dialect).items():
        assert (dialect, op_type) not in IMPORT_RULES, f"{op_type} has a pattern and a function"
        assert len(said) == 1, f"{op_type} has patterns on {[op_def.name for op_def, _ in said]}"


@pytest.mark.parametrize("dialect", ["nnef", "onnx"])
def test_rules_lift_operators_that_have_a_definition(dialect):
    registry.load(dialect)
    assert {name for spoken, name in EXPORT_RULES if spoken == dialect} <= set(OP_DEFS)


def test_export_rules_have_the_defaults_of_their_definitions():
    """Default attributes are removed before an export rule runs: an explicit one would have another meaning there."""
    asked = 0
    for dialect in registry.dialects():
        registry.load(dialect)
    for (dialect, name), rules in EXPORT_RULES.items():
        known = registry.op_defs()[name].signature.keywords
        for rule in rules:
            asked += 1
            stated = inspect.signature(rule.function).parameters.values()
            if [each.name for each in stated] == ["b", "op"]:
                continue  # a view is generated from its operator definition
            told = {each.name: each.default for each in stated if each.kind is each.KEYWORD_ONLY and each.name in known}
            wanted = {key: inspect.Parameter.empty if known[key].is_required else known[key].default for key in told}
            assert told == wanted, f"{dialect}: {name}"
            if not any(each.kind is each.VAR_KEYWORD for each in stated):
                assert known.keys() <= told.keys(), f"{dialect}: {name}"
    assert asked > 700


def test_graphport_domain_contains_only_expression():
    assert [name for name, op_def in registry.op_defs().items() if op_def.domain == OURS] == ["graphport.Expression"]
