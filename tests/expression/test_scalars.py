from __future__ import annotations

import math

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.expression.expression import Expression
from tests.every import every


@every(
    ("text", "value"),
    [
        ("add(1,2)", 3),
        ("add(2147483647,1)", 2147483648),
        ("add(1,2.5)", 3.5),
        ("add(True,True)", 2),
        ("sub(1,2.0)", -1.0),
        ("mul(3,-4)", -12),
        ("div(6,3)", 2.0),
        ("div(1,0)", math.inf),
        ("div(-1.0,0)", -math.inf),
        ("floor_divide(-7,2)", -4),
        ("floor_divide(7,-2)", -4),
        ("floor_divide(-7.0,2)", -4.0),
        ("remainder(-7,2)", 1),
        ("remainder(7,-2)", -1),
        ("remainder(-6.0,3.0)", 0.0),
        ("fmod(-7,2)", -1),
        ("fmod(7,-2)", 1),
        ("fmod(-7.5,2)", -1.5),
        ("pow(2,10)", 1024),
        ("pow(2,31)", 2147483648),
        ("pow(2,-1)", 0.5),
        ("pow(2.0,3)", 8.0),
        ("pow(-1,1000000000000)", 1),
        ("pow(-1,1000000000001)", -1),
        ("pow(0,0)", 1),
        ("abs(-3)", 3),
        ("abs(-3.5)", 3.5),
        ("abs(3+4j)", 5.0),
        ("neg(3)", -3),
        ("sign(-2.5)", -1.0),
        ("sign(7)", 1),
        ("square(5)", 25),
        ("round(2.5)", 2),
        ("round(3.5)", 4),
        ("round(-0.5)", 0),
        ("floor(-1.5)", -2),
        ("ceil(-1.5)", -1),
        ("trunc(-1.7)", -1),
        ("floor(inf)", math.inf),
        ("sqrt(16)", 4.0),
        ("exp(0)", 1.0),
        ("log(0)", -math.inf),
        ("reciprocal(4)", 0.25),
        ("atan2(1,-1)", 2.356194490192345),
        ("logaddexp(100,100)", 100.69314718055995),
        ("max(2,3)", 3),
        ("max(2,2.5)", 2.5),
        ("minimum(-1,-2)", -2),
        ("and(12,10)", 8),
        ("or(12,10)", 14),
        ("xor(12,10)", 6),
        ("and(True,False)", False),
        ("lshift(1,10)", 1024),
        ("rshift(-7,1)", -4),
        ("rshift(7,100)", 0),
        ("int(-1.7)", -1),
        ("int(True)", 1),
        ("torch.float(3)", 3.0),
        ("torch.long(2.7)", 2),
        ("torch.bool(2)", True),
        ("mul(1+2j,2)", 2 + 4j),
        ("None", None),
        ("torch.float", "torch.float"),
        ("[]", []),
        ("[1,[2.5,None],True]", [1, [2.5, None], True]),
    ],
)
def test_numbers(text, value):
    result = Expression(text)()
    assert type(result) is type(value)
    assert result == (pytest.approx(value, rel=1e-15) if isinstance(value, float | complex) else value)


@pytest.mark.parametrize(
    "text", ["fmod(1.0,0)", "remainder(1.0,0.0)", "sqrt(-1)", "max(nan,1)", "min(1,nan)", "log(-1)"]
)
def test_no_number(text):
    assert math.isnan(Expression(text)())


@every(
    ("text", "code"),
    [
        ("floor_divide(1,0)", "EXPR0204"),
        ("remainder(1,0)", "EXPR0204"),
        ("fmod(1,0)", "EXPR0204"),
        ("add(9223372036854775807,1)", "EXPR0206"),
        ("pow(10,pow(10,10))", "EXPR0206"),
        ("lshift(1,64)", "EXPR0206"),
        ("lshift(1,9223372036854775807)", "EXPR0206"),
        ("mul(4294967296,4294967296)", "EXPR0206"),
        ("int(1e30)", "EXPR0206"),
        ("floor(1e30)", "EXPR0206"),
        ("int(nan)", "EXPR0203"),
        ("lshift(1,-1)", "EXPR0203"),
        ("and(12,1.5)", "EXPR0203"),
        ("max(1,1+2j)", "EXPR0203"),
        ("floor(1+2j)", "EXPR0203"),
        ("int(1+2j)", "EXPR0203"),
        ("add(None,1)", "EXPR0203"),
        ("add([1],2)", "EXPR0203"),
        ("neg(torch.float)", "EXPR0203"),
        ("size(3)", "EXPR0203"),
    ],
)
def test_undefined_scalar_results_are_rejected(text, code):
    with pytest.raises(DiagnosticError) as caught:
        Expression(text)()
    (finding,) = caught.value.diagnostics
    assert finding.code == code
    assert finding.span is not None


def test_scalar_error_span_covers_the_function():
    with pytest.raises(DiagnosticError) as caught:
        Expression("add(1,floor_divide(2,0))")()
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.start, span.stop) == (6, 23)
