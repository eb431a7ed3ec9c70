"""Integers of TFLite files as LiteRT's reference kernels compute them, to the last bit (`make_reference_cases.py`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphport as gp

CASES = Path(__file__).parent / "reference_cases"


def recorded(name: str) -> tuple[gp.Model, dict[str, np.ndarray], list[np.ndarray]]:
    model = gp.load(CASES / f"{name}.tflite")
    told = np.load(CASES / f"{name}.npz")
    given = {x: told[f"in{index}"] for index, x in enumerate(model.inputs)}
    return model, given, [told[f"out{index}"] for index in range(len(model.outputs))]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16"])
def test_the_reference_computes_integers_as_litert_rounds_them(name: str) -> None:
    model, given, expected = recorded(name)
    assert len(expected) > 15
    for operator, (one, other) in zip(
        model.outputs, zip(gp.run(model, given, backend="reference").values(), expected, strict=True), strict=True
    ):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, operator)


def test_a_file_in_its_own_op_types_is_computed_so_too() -> None:
    _, given, expected = recorded("int8")
    raw = gp.load(CASES / "int8.tflite", raw=True)
    for one, other in zip(gp.run(raw, given, backend="reference").values(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_model_that_was_changed_is_computed_as_it_states_now() -> None:
    model, given, _ = recorded("int8")
    as_read = gp.run(model, given, backend="reference")
    model.graph.rename(next(iter(model.graph)).output, "another name")
    changed = gp.run(model, given, backend="reference")
    differ = {name for name, array in as_read.items() if name in changed and np.any(array != changed[name])}
    # Halves go away from zero in LiteRT's kernels, and to even in ONNX.
    assert any(name.startswith("QUANTIZE") for name in differ)


def test_all_values_are_those_of_the_graph() -> None:
    model, given, _ = recorded("int8")
    found = gp.session(model, "reference").run(given, every_value=True)
    assert set(found) >= {value.name for node in model.graph for value in node.results}
