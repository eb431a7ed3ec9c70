"""Reshape-1, Range-1 and Range-4 against their documents: constants and run time, one meaning for both."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import graphport as gp

CASES = {row["name"]: row for row in json.loads((Path(__file__).parent / "cases" / "specified.json").read_text())}
TYPES = {"boolean": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": ml_dtypes.bfloat16}
# A tensor without elements, two of whose dims are 2^32: no array of NumPy or ONNX Runtime has such a shape.
SHAPES_ONLY = {"reshape/case137"}

pytestmark = pytest.mark.conformance


def numpy_type(name):
    if name in TYPES:
        return TYPES[name]
    return {"i": "int", "u": "uint"}[name[0]] + name[1:]


def written(row, folder):
    path = folder / "model.xml"
    path.write_text(row["xml"])
    if row["bin"] is not None:
        path.with_suffix(".bin").write_bytes(bytes.fromhex(row["bin"]))
    return path


def given(row):
    found = {}
    for each in row["inputs"]:
        data = [float(x) if isinstance(x, str) else x for x in each["data"]]
        found[each["name"]] = np.array(data, numpy_type(each["dtype"])).reshape(each["shape"])
    return found


def answer(row, folder, backend):
    model = gp.load(written(row, folder))
    return next(iter(gp.run(model, given(row), backend=backend).values()))


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize("name", sorted(CASES.keys() - SHAPES_ONLY))
def test_result_matches_the_openvino_specification(name, backend, tmp_path):
    row = CASES[name]
    expected = row["expected"]
    if expected["kind"] in ("error", "ambiguous"):
        with pytest.raises(gp.DiagnosticError):
            answer(row, tmp_path, backend)
        return
    found = answer(row, tmp_path, backend)
    if expected["kind"] == "shape":
        assert expected["shape"] is None or list(found.shape) == expected["shape"]
        return
    assert len(found) == expected["n"]
    numbers = np.array([float(x) if isinstance(x, str) else x for x in expected["data"]])
    if found.dtype.kind in "iu":
        np.testing.assert_array_equal(found, numbers)
    else:
        unit = ml_dtypes.finfo(found.dtype).eps
        np.testing.assert_allclose(found.astype(np.float64), numbers, rtol=float(unit), atol=0)


@pytest.mark.parametrize("name", sorted(SHAPES_ONLY))
def test_a_shape_that_no_array_can_have_is_inferred(name, tmp_path):
    model = gp.load(written(CASES[name], tmp_path))
    assert list(next(iter(model.outputs.values())).fact.shape) == CASES[name]["expected"]["shape"]
