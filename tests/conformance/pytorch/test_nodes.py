"""Node tests of the `onnx` package as `.pt2`, in torch: equal, or refused with the operator that is why."""

import numpy as np
import onnx
import pytest

import graphport as gp
from tests.conformance.onnx.nodes import cases, data, differences, names
from tests.conformance.pytorch import programs

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not programs.PYTHON, reason="GRAPHPORT_PYTHON_TORCH names no Python that has torch"),
]
LEAST_SHARE = 0.95
"""Of all cases; most of the rest have strings, sequences, or element types that torch lacks."""
TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-6}


def is_near(found, expected):
    """Whether two arrays differ by the rounding of their type alone."""
    a, b = np.asarray(found), np.asarray(expected)
    tolerance = TOLERANCES.get(b.dtype.name)
    if tolerance is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    with np.errstate(invalid="ignore"):  # NaN of 8 bits
        wide = [each.astype(np.float64) for each in (a, b)]
    return np.allclose(*wide, rtol=max(tolerance, 1e-3), atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("form", ["program", "code"])
def test_written_programs_match_in_torch(tmp_path, form):
    expected, refused = {}, {}
    for name in names():
        case = cases()[name]
        inputs, outputs = data(case)[0]
        if any(x is None or isinstance(x, list | dict) for x in inputs):
            refused[name] = "a sequence"
            continue
        onnx.save(case.model, tmp_path / "case.onnx")
        path = tmp_path / f"{name}.pt2"
        try:
            gp.save(gp.load(tmp_path / "case.onnx"), path, code=form == "code")
        except gp.DiagnosticError as error:
            refused[name] = error.diagnostics[0].message
            continue
        programs.store(path, inputs)
        expected[name] = outputs
    programs.run_all(tmp_path, form)
    wrong = {}
    for name, outputs in expected.items():
        found = programs.outcome(tmp_path / f"{name}.pt2")
        pairs = zip(found.outputs, map(programs.widened, map(np.asarray, outputs)), strict=False)
        if found.error or len(found.outputs) < len(outputs):
            wrong[name] = found.error or "outputs are missing"
        elif not all(is_near(a, b) or not differences([a], [b]) for a, b in pairs):
            wrong[name] = "other values"
    assert wrong == {}
    assert len(expected) >= LEAST_SHARE * len(names()), refused
