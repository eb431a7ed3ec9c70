from __future__ import annotations

import pytest

from graphport import formats
from graphport.formats.onnx.container import domains


@pytest.mark.parametrize(
    "domain", ["com.microsoft", "ai.onnx.ml", "my domain", "onnx", "nnef", "openvino.opset1", "onnx:x"]
)
def test_domains_round_trip_through_dialects(domain: str) -> None:
    assert domains.domain_of(domains.dialect_of(domain)) == domain


@pytest.mark.parametrize("alias", ["", "ai.onnx"])
def test_default_domain_aliases_map_to_one_dialect(alias: str) -> None:
    assert domains.dialect_of(alias) == "onnx"


@pytest.mark.parametrize("domain", ["onnx", "onnx.future", "nnef", "openvino", "caffe", "graphport"])
def test_a_domain_never_becomes_a_dialect_of_another_format(domain: str) -> None:
    assert domains.dialect_of(domain).startswith("onnx:")


@pytest.mark.parametrize("dialect", ["nnef", "openvino.opset1", "pnnx", "graphport"])
def test_other_formats_have_no_domain(dialect: str) -> None:
    assert domains.domain_of(dialect) is None


def test_a_function_in_the_default_domain_is_no_operator() -> None:
    dialect = domains.dialect_of_function("")
    assert dialect != "onnx"
    assert domains.domain_of(dialect) == ""


def test_op_types_of_other_formats_are_no_operators_of_a_domain() -> None:
    dialects = {kind.dialect for kind in formats.FORMATS.values()} | {"tract"}
    # A custom operator of TFLite is one of a domain of its own.
    assert {dialect for dialect in dialects - {""} if domains.keeps(dialect)} == {"tflite"}
