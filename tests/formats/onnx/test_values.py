from __future__ import annotations

from typing import Any

import pytest
from onnx import AttributeProto

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN
from graphport.core.storage import storage_of
from graphport.formats.onnx.container import attributes as kinds
from graphport.formats.onnx.container.values import AttributeMismatchError, attribute_kind, set_value
from graphport.ir.graph import Graph


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, kinds.INT),
        (3, kinds.INT),
        (DType.INT8, kinds.INT),
        (0.5, kinds.FLOAT),
        ("a", kinds.STRING),
        (b"a", kinds.STRING),
        (storage_of([1]), kinds.TENSOR),
        (Graph(), kinds.GRAPH),
        (UNKNOWN, kinds.TYPE_PROTO),
        ((1, 2), kinds.INTS),
        ((1, 2.5), kinds.FLOATS),
        (("a", "b"), kinds.STRINGS),
        ((Graph(), Graph()), kinds.GRAPHS),
    ],
)
def test_attribute_kind_is_derived_from_the_value(value: Any, kind: int) -> None:
    assert attribute_kind(value) == kind


@pytest.mark.parametrize("value", [(), ((1, 2), (3, 4)), (1, "a"), None, 1j], ids=repr)
def test_op_types_that_onnx_cannot_express_are_refused(value: Any) -> None:
    with pytest.raises(AttributeMismatchError):
        attribute_kind(value)


@pytest.mark.parametrize(
    ("kind", "value", "field", "expected"),
    [
        pytest.param(kinds.FLOAT, 2, "f", 2.0, id="an integer where a float belongs"),
        pytest.param(kinds.FLOATS, (1, 2), "floats", [1.0, 2.0], id="integers where floats belong"),
        pytest.param(kinds.FLOATS, (), "floats", [], id="an empty list"),
        pytest.param(kinds.INT, True, "i", 1, id="a claim"),
        pytest.param(kinds.INT, DType.BFLOAT16, "i", 16, id="an element type"),
        pytest.param(kinds.STRING, "\udcff", "s", b"\xff", id="a byte that is no text"),
        pytest.param(kinds.FLOAT, float("inf"), "f", float("inf"), id="infinity"),
    ],
)
def test_set_value_converts_to_the_attribute_kind(kind: int, value: Any, field: str, expected: Any) -> None:
    proto = AttributeProto()
    set_value(proto, kind, value)
    assert getattr(proto, field) == expected
    assert proto.type == kind


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(kinds.INT, 0.5, id="a fraction for an integer"),
        pytest.param(kinds.INT, 1 << 63, id="more than 64 bits"),
        pytest.param(kinds.INTS, 3, id="a number for a list"),
        pytest.param(kinds.FLOAT, "a", id="a text for a number"),
        pytest.param(kinds.FLOAT, 3.5e38, id="more than 32 bits hold"),
        pytest.param(kinds.STRING, 1, id="a number for a text"),
    ],
)
def test_values_of_another_type_are_refused(kind: int, value: Any) -> None:
    with pytest.raises(AttributeMismatchError):
        set_value(AttributeProto(), kind, value)
