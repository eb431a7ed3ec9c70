"""Operators of opsets behind the pinned one: of the future only where their meaning changed, by ONNX's own schemas."""

import onnx.defs

from graphport.formats.onnx.container import domains, schema
from graphport.ops.declare import OPSET
from tests.formats.onnx.newest import NEEDS_NEWEST_OPSET

pytestmark = NEEDS_NEWEST_OPSET

SAME = {
    *(
        "BitShift",
        "Cast",
        "Celu",
        "Compress",
        "DepthToSpace",
        "DequantizeLinear",
        "Einsum",
        "Mod",
        "OneHot",
        "Optional",
    ),
    *("OptionalGetElement", "OptionalHasElement", "QuantizeLinear", "Range", "ReduceLogSum", "ReduceLogSumExp"),
    *("ReverseSequence", "SpaceToDepth", "Unique"),
}
"""Changed in number and in element types only, or by attributes whose absence means what it was."""
NEW = {"CausalConvWithState", "LinearAttention", "SwiGLU"}


def changed():
    return {
        each.name
        for each in onnx.defs.get_all_schemas_with_history()
        if not each.domain and OPSET < each.since_version <= schema.JUDGED
    }


def test_every_operator_that_came_or_changed_later_has_been_judged():
    assert changed() == SAME | NEW


def test_only_changed_operators_use_the_future_dialect():
    found = {name: schema.operator("", name, schema.JUDGED).dialect for name in changed()}
    assert {name for name, dialect in found.items() if dialect == domains.FUTURE} == NEW


def test_unjudged_operators_use_the_future_dialect(monkeypatch):
    monkeypatch.setattr(schema, "JUDGED", OPSET)
    schema.operator.cache_clear()
    try:
        assert schema.operator("", "Cast", 28).dialect == domains.FUTURE
        assert schema.operator("", "Relu", 28).dialect == domains.DEFAULT
    finally:
        schema.operator.cache_clear()


def test_newer_attributes_are_listed():
    assert schema.operator("", "Range", 28).newer == {"stash_type"}
    assert schema.operator("", "SpaceToDepth", 28).newer == {"mode"}
