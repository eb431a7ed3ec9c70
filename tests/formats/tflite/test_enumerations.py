"""Numbers of no member, of no version, and bytes of another layout: errors with the place, never a guess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.tflite.container import schema
from graphport.formats.tflite.container.encode import Encoder, union_number
from graphport.formats.tflite.container.reader import read

if TYPE_CHECKING:
    from pathlib import Path


def written(place: Path, op_type: str, operator: dict[str, Any], **code: Any) -> Path:
    """A file of one operator of two operands [1, 4, 4, 1]."""
    number = schema.BY_NAME[op_type].number
    shape = np.array([1, 4, 4, 1], np.int32)
    tensors = [("Tensor", {"type": 0, "shape": shape, "name": name}) for name in "abc"]
    names = {"builtin_code": number, "deprecated_builtin_code": min(number, schema.NEWER)}
    ends = {"inputs": np.array([0, 1], np.int32), "outputs": np.array([2], np.int32)}
    graph = {
        "tensors": tensors,
        "operators": [("Operator", ends | operator)],
        "inputs": np.array([0, 1], np.int32),
        "outputs": np.array([2], np.int32),
    }
    content = {
        "version": 3,
        "operator_codes": [("OperatorCode", names | code)],
        "subgraphs": [("SubGraph", graph)],
        "buffers": [("Buffer", {})],
    }
    path = place / "m.tflite"
    with path.open("wb") as file:
        Encoder().write(("Model", content), file)
    return path


def options(table: str, **fields: Any) -> dict[str, Any]:
    union = "options" if table in schema.UNIONS["options"] else "options_2"
    name = "builtin_options" if union == "options" else "builtin_options2"
    return {f"{name}_type": union_number(union, table), name: (table, fields)}


def codes(path: Path) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    assert all(finding.span is not None and "operator[0]" in str(finding) for finding in caught.value.diagnostics)
    return [finding.code for finding in caught.value.diagnostics]


ENUMERATIONS = [
    (operator.name, field)
    for operator in schema.OPERATORS
    for field in schema.TABLES.get(operator.options, ())
    if field.is_scalar and field.kind in "bBiI"
    if field.name in schema.ENUMS
    or f"{operator.options}.{field.name}" in schema.ENUMS
    or field.name in schema.ELEMENT_TYPES
]


def test_each_enumeration_of_options_refuses_what_is_no_member(tmp_path: Path) -> None:
    assert len(ENUMERATIONS) > 40
    for op_type, field in ENUMERATIONS:
        for number in (77, -1 if field.kind in "bi" else 99):
            path = written(tmp_path, op_type, options(schema.BY_NAME[op_type].options, **{field.name: number}))
            assert codes(path)[0] == "TFL0208", (op_type, field.name, number)


@pytest.mark.parametrize(("field", "number"), [("fused_activation_function", 5), ("pot_scale_int16", 0)])
def test_members_are_read(tmp_path: Path, field: str, number: int) -> None:
    graph, _ = read(written(tmp_path, "ADD", options("AddOptions", **{field: number})))
    assert [node.op_type for node in graph] == ["ADD"]


@pytest.mark.parametrize("version", [2**31 - 1, 0, -1, 99])
def test_a_version_that_no_operator_has_is_refused(tmp_path: Path, version: int) -> None:
    assert codes(written(tmp_path, "ADD", {}, version=version)) == ["TFL0201"]


def test_options_of_a_custom_operator_have_one_format(tmp_path: Path) -> None:
    path = written(tmp_path, "CUSTOM", {"custom_options_format": 1}, custom_code="Mine")
    assert codes(path) == ["TFL0208"]


@pytest.mark.parametrize("data", [None, b"", b"not a map", b"\x00" * 40])
@pytest.mark.parametrize("name", ["TFLite_Detection_PostProcess", "AudioSpectrogram", "MaxPoolingWithArgmax2D"])
def test_options_that_a_custom_operator_needs_are_requested(tmp_path: Path, name: str, data: bytes | None) -> None:
    operator = {} if data is None else {"custom_options": data}
    path = written(tmp_path, "CUSTOM", operator, custom_code=name)
    findings = gp.check(path)
    assert [finding.code for finding in findings if finding.is_error] == ["SHAPE0001"]


@pytest.mark.parametrize("size", [8, 3, 5])
def test_a_buffer_has_the_bytes_of_its_elements(tmp_path: Path, size: int) -> None:
    """8 elements of 4 bits take 4 bytes; LiteRT refuses a file that stores one in a byte."""
    shape = np.array([8], np.int32)
    tensors = [
        ("Tensor", {"type": 17, "shape": shape, "name": "w", "buffer": 1}),
        ("Tensor", {"type": 0, "shape": shape, "name": "y"}),
    ]
    run = ("Operator", {"inputs": np.array([0], np.int32), "outputs": np.array([1], np.int32)})
    graph = {"tensors": tensors, "operators": [run], "outputs": np.array([1], np.int32)}
    number = schema.BY_NAME["DEQUANTIZE"].number
    code = ("OperatorCode", {"builtin_code": number, "deprecated_builtin_code": number, "version": 6})

    def model(length: int) -> Path:
        buffers = [("Buffer", {}), ("Buffer", {"data": np.zeros(length, np.uint8).tobytes()})]
        content = {"version": 3, "operator_codes": [code], "subgraphs": [("SubGraph", graph)], "buffers": buffers}
        path = tmp_path / "m.tflite"
        with path.open("wb") as file:
            Encoder().write(("Model", content), file)
        return path

    with pytest.raises(DiagnosticError, match=r"tensor\[0\].*8 elements of int4 take 4 bytes"):
        read(model(size))
    read(model(4))
