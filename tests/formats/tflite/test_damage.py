"""Files that are broken: findings, never another exception, and no memory that the file does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.tflite.container.encode import Encoder
from graphport.formats.tflite.container.reader import read
from tests.draws import times
from tests.formats.tflite.test_cases import CASES, NAMES

if TYPE_CHECKING:
    from pathlib import Path


def test_changed_bytes_are_read_or_reported(tmp_path: Path) -> None:
    random, told = np.random.default_rng(0), 0
    place = tmp_path / "broken.tflite"
    for name in NAMES:
        original = (CASES / f"{name}.tflite").read_bytes()
        for _ in range(times(12)):
            content = bytearray(original)
            for _ in range(int(random.integers(1, 4))):
                at = int(random.integers(0, len(content)))
                content[at] = int(random.choice([0, 1, 127, 128, 255, random.integers(0, 256)]))
            place.write_bytes(content[: int(random.integers(4, len(content)))] if random.random() < 0.2 else content)
            try:
                gp.load(place)
            except DiagnosticError as error:
                told += all(finding.code for finding in error.diagnostics)
    assert told > times(50)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(lambda raw: raw[:4] + b"TFL2" + raw[8:], "IO0002", id="another identifier"),
        pytest.param(lambda raw: b"\xff\xff\xff\x7f" + raw[4:], "TFL0001", id="the root lies beyond the end"),
        pytest.param(lambda raw: raw[: len(raw) // 2], "TFL0001", id="the second half is gone"),
    ],
)
def test_damage_has_a_code(tmp_path: Path, change, code: str) -> None:
    place = tmp_path / "model.bin"
    place.write_bytes(change((CASES / "conv_2d.tflite").read_bytes()))
    with pytest.raises(DiagnosticError) as caught:
        gp.load(place)
    assert caught.value.diagnostics[0].code == code


def test_what_stands_after_the_model_is_not_read(tmp_path: Path) -> None:
    place = tmp_path / "model.tflite"
    place.write_bytes((CASES / "conv_2d.tflite").read_bytes() + b"PK\x03\x04 labels")
    graph, findings = read(place)
    assert [node.op_type for node in graph] == ["CONV_2D"]
    assert not findings


def test_bodies_that_are_run_again_and_again_are_counted(tmp_path: Path) -> None:
    tensor = "Tensor", {"type": 0, "shape": np.array([1], np.int32)}
    branch = "SubGraph", {"tensors": [tensor] * 2000, "inputs": np.arange(2000, dtype=np.int32), "operators": []}
    options = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    run = "Operator", {"builtin_options_type": 92, "builtin_options": ("IfOptions", options)}
    main = "SubGraph", {"tensors": [tensor], "operators": [run] * 500}
    code = "OperatorCode", {"builtin_code": 118, "deprecated_builtin_code": 118}
    place = tmp_path / "bodies.tflite"
    with place.open("wb") as file:
        Encoder().write(("Model", {"version": 3, "operator_codes": [code], "subgraphs": [main, branch]}), file)
    with pytest.raises(DiagnosticError) as caught:
        gp.load(place)
    assert caught.value.diagnostics[0].code == "TFL0206"
