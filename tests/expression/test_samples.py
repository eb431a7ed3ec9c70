"""The 80 sample expressions: results equal to PyTorch's, errors where they are."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.expression import Expression
from tests.draws import spread
from tests.every import every
from tests.expression.samples import CASES, expected_of, inputs_of, text_of

CODES = {
    "empty": "EXPR0001",
    "unexpected_char": "EXPR0002",
    "bad_literal": "EXPR0003",
    "bad_reference": "EXPR0004",
    "missing_operand": "EXPR0101",
    "missing_paren": "EXPR0102",
    "unexpected_token": "EXPR0102",
    "unbalanced": "EXPR0103",
    "trailing_tokens": "EXPR0104",
    "unknown_function": "EXPR0105",
    "arity": "EXPR0106",
    "shape_mismatch": "EXPR0202",
    "type_error": "EXPR0203",
    "division_by_zero": "EXPR0204",
    "index_out_of_range": "EXPR0205",
}
DEFAULT = {"f32": DType.FLOAT32, "f64": DType.FLOAT64}


def assert_equal(actual, expected, rtol, atol):
    if isinstance(expected, list):
        assert isinstance(actual, list)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_equal(one, other, rtol, atol)
        return
    if isinstance(expected, np.ndarray):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    else:
        assert type(actual) is type(expected)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def evaluate(text, inputs):
    expression = Expression(text)
    return expression(*inputs[: expression.operand_count])


@every(
    ("case", "precision"),
    # Depth is the same in both; tests/conformance/test_depth.py has the rest. The deepest, which takes longer than all
    # others together, is met where all are.
    spread([(c, p) for c in CASES if "expected" in c for p in DEFAULT if "nested" not in c or p == "f32"], start=1),
    ids=lambda given: given["id"] if isinstance(given, dict) else given,
)
def test_sample_matches_pytorch(case, precision):
    assert_value(case, precision)


def assert_value(case, precision):
    expression = Expression(text_of(case), lenient="canonical" in case, default_float=DEFAULT[precision])
    result = expression(*inputs_of(case, precision)[: expression.operand_count])
    assert_equal(result, expected_of(case, precision), case["rtol"], case["atol"])


@pytest.mark.parametrize("case", [c for c in CASES if "batch" in c], ids=lambda case: case["id"])
def test_a_sample_with_a_batch_is_forwarded_item_by_item(case):
    inputs = [item for operand in inputs_of(case) for item in operand]
    outputs = Expression(case["expr"]).forward(inputs, case["batch"])
    assert_equal(np.stack(outputs), expected_of(case), case["rtol"], case["atol"])


@every("case", [c for c in CASES if "error" in c], ids=lambda case: case["id"])
def test_invalid_sample_is_rejected_at_its_span(case):
    with pytest.raises(DiagnosticError) as caught:
        evaluate(case["expr"], inputs_of(case))
    finding = caught.value.diagnostics[0]
    assert finding.code == CODES[case["error"]]
    assert finding.span is not None
    if case["category"] == "malformed":
        assert finding.span.column == case["error_pos"] + 1
    elif case["error_pos"] is not None:
        assert finding.span.start <= case["error_pos"] <= finding.span.stop


@pytest.mark.parametrize("case", [c for c in CASES if "canonical" in c], ids=lambda case: case["id"])
def test_malformed_pnnx_sample_is_read_leniently_with_a_warning(case):
    with pytest.raises(DiagnosticError) as caught:
        Expression(case["expr"])
    assert caught.value.diagnostics[0].code == CODES[case["strict_error"]]
    expression = Expression(case["expr"], lenient=True)
    assert str(expression) == case["canonical"]
    (warning,) = expression.findings
    assert warning.code == "EXPR0107"
    assert not warning.is_error
    assert case["canonical"] in warning.message
