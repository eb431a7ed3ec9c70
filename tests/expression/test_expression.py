from __future__ import annotations

import json

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS, Function, Signature, function_table
from tests import deep
from tests.expression.arrays import f32, f64, i32


def refused(function, *arguments, **options):
    with pytest.raises(DiagnosticError) as caught:
        function(*arguments, **options)
    return caught.value.diagnostics[0]


@pytest.fixture(params=["numpy", "fused"])
def tier(request):
    if request.param == "fused":
        pytest.importorskip("llvmlite")
    return request.param


def test_data_is_plain():
    data = Expression("add(@0,[1.5])").data()
    assert json.loads(json.dumps(data)) == data
    assert data["tokens"][0] == {"kind": "name", "text": "add", "start": 0, "end": 3}
    assert data["tree"] == [
        {"kind": "call", "text": "add", "start": 0, "end": 13, "arguments": [1, 2]},
        {"kind": "reference", "text": "@0", "start": 4, "end": 6, "arguments": []},
        {"kind": "list", "text": "[", "start": 7, "end": 12, "arguments": [3]},
        {"kind": "literal", "text": "1.5", "start": 8, "end": 11, "arguments": []},
    ]
    assert data["rpn"] == ["@0", "1.5", "list/1", "add"]


def test_data_of_a_deep_expression_can_be_written():
    depth = 5000
    data = Expression("neg(" * depth + "@0" + ")" * depth).data()
    assert len(json.loads(json.dumps(data))["tree"]) == depth + 1


def test_deep_expressions_are_computed():
    depth = 5 * deep.LEVELS
    expression = Expression("add(" * depth + "@0" + ",1)" * depth)
    assert expression(f64([0.5])) == depth + 0.5


def test_operands_may_be_scalars_arrays_or_sequences():
    e = Expression("add(@0,@1)")
    assert e(1, 2) == 3
    assert e(f32([1]), 2).dtype == np.float32
    assert e(f32([1]), np.float64(2)).dtype == np.float32
    assert e(np.float32(1), np.float64(2)).dtype == np.float64
    assert e([1, 2], [0.5, 0.5]).tolist() == [1.5, 2.5]
    assert e(True, f32([1])).dtype == np.float32


def test_repeated_calls_use_the_new_scalar(tier):
    e = Expression("mul(@0,@1)", tier=tier)
    x = f32([1, 2])
    assert [e(x, factor)[1] for factor in (2, 3, 2.5, 0.0)] == [4, 6, 5, 0]
    assert np.signbit(e(x, -0.0)).all()
    assert [e(factor, x)[1] for factor in (2, 3)] == [4, 6]


def test_repeated_calls_use_the_new_dtypes(tier):
    e = Expression("add(@0,@1)", tier=tier)
    half, single = np.ones(3, np.float16), np.ones((), np.float32)
    assert e(half, single).dtype == np.float16
    assert e(half, np.ones(3, np.float32)).dtype == np.float32
    assert e(half, half).dtype == np.float16
    assert e(single, single).dtype == np.float32


def test_repeated_calls_use_the_new_shapes(tier):
    e = Expression("mul(@0,size(@0,0))", tier=tier)
    assert e(f32([1, 1]))[0] == 2
    assert e(f32([1, 1, 1]))[0] == 3


def test_sizes():
    x = np.zeros((2, 6, 8, 10), np.float32)
    assert Expression("size(@0)")(x) == [2, 6, 8, 10]
    assert Expression("size(@0,-1)")(x) == 10
    assert Expression("[int(div(size(@0,3),3)),floor_divide(size(@0,2),3)]")(x) == [3, 2]
    assert Expression("size(add(@0,@1),0)")(x, np.zeros((5, 1, 1, 1, 1), np.float32)) == 5


def test_list_may_contain_tensors():
    doubled, (size, negated) = Expression("[mul(@0,2),[size(@0,0),neg(@0)]]")(f32([1, 2, 3]))
    assert doubled.tolist() == [2, 4, 6]
    assert (size, negated.tolist()) == (3, [-1, -2, -3])


def test_int_requires_one_element():
    assert Expression("int(@0)")(f32([2.7])).tolist() == [2]
    finding = refused(Expression("int(@0)"), f32([1, 2]))
    assert finding.code == "EXPR0203"


def test_casts_of_tensors(tier):
    x = f32([1.7, -1.7, 0.0])
    assert Expression("torch.long(@0)", tier=tier)(x).tolist() == [1, -1, 0]
    assert Expression("torch.bool(@0)", tier=tier)(x).tolist() == [True, True, False]
    assert Expression("torch.float(@0)", tier=tier)(i32([1, 2])).dtype == np.float32
    lowest = np.iinfo(np.int64).min
    assert Expression("torch.long(@0)", tier=tier)(f32([np.nan, np.inf, 1e20])).tolist() == [lowest] * 3


def test_single_operand_is_copied():
    x = f32([1, 2])
    result = Expression("@0")(x)
    assert result.tolist() == x.tolist()
    assert not np.shares_memory(result, x)


def test_results_without_axes(tier):
    result = Expression("add(@0,exp(@1))", tier=tier)(np.array(1.0, np.float32), np.array(0.0, np.float32))
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.item()) == ((), 2.0)


def test_empty_tensors(tier):
    e = Expression("floor_divide(@0,@1)", tier=tier)
    assert e(np.zeros((0, 3), np.int32), np.zeros(3, np.int32)).shape == (0, 3)


@pytest.mark.parametrize("operands", [(), (f32([1]),), (f32([1]),) * 3])
def test_a_wrong_count_of_operands_is_refused(operands):
    finding = refused(Expression("add(@0,@1)"), *operands)
    assert finding.code == "EXPR0201"
    assert finding.message == f"the expression takes 2 operands, got {len(operands)}"


def test_the_operand_that_is_missing_is_shown():
    finding = refused(Expression("add(@0,@5)"), f32([1]), f32([1]))
    assert finding.span is not None
    assert (finding.span.start, finding.span.stop) == (7, 9)


@pytest.mark.parametrize("shapes", [((2, 3), (2,)), ((2, 3), (3, 2)), ((0, 3), (2, 3))])
def test_broadcast_error_span_covers_the_function(shapes, tier):
    e = Expression("neg(add(@0,@1))", tier=tier)
    e(f32([1]), f32([1]))
    finding = refused(e, *(np.zeros(shape, np.float32) for shape in shapes))
    assert finding.code == "EXPR0202"
    assert finding.span is not None
    assert (finding.span.start, finding.span.stop) == (11, 13)
    assert "do not broadcast" in finding.message


def test_integer_division_by_zero_reports_its_span(tier):
    e = Expression("add(1,remainder(@0,@1))", tier=tier)
    for size in (1, 3, 1000):
        divisors = np.ones(size, np.int32)
        divisors[-1] = 0
        finding = refused(e, np.ones(size, np.int32), divisors)
        assert finding.code == "EXPR0204"
        assert finding.span is not None
        assert finding.span.start == 6


def test_unsupported_dtypes_are_rejected():
    assert refused(Expression("neg(@0)"), np.array(["a"])).code == "EXPR0203"
    assert refused(Expression("lshift(@0,2)"), f32([1])).message == "lshift does not support float32"


def test_out(tier):
    e = Expression("add(@0,mul(@1,@1))", tier=tier)
    x, y = f32([[1, 2], [3, 4]]), f32([10, 20])
    out = np.empty((2, 2), np.float32)
    assert e(x, y, out=out) is out
    assert out.tolist() == [[101, 402], [103, 404]]
    assert e(x, y, out=np.empty((2, 4), np.float32)[:, ::2]).tolist() == out.tolist()
    assert e(x, y, out=np.empty((2, 2), np.float32, order="F")).tolist() == out.tolist()


@pytest.mark.parametrize(
    "out", [np.empty(3, np.float32), np.empty((1, 2), np.float32), np.empty(2, np.float64), f32([1, 2]).view(np.int32)]
)
def test_an_out_that_does_not_fit_is_refused(out, tier):
    e = Expression("add(@0,@0)", tier=tier)
    e(f32([1, 2]))
    assert refused(e, f32([1, 2]), out=out).code == "EXPR0207"


def test_invalid_out_array_is_rejected():
    out = f32([1, 2])
    out.flags.writeable = False
    assert refused(Expression("add(@0,@0)"), f32([1, 2]), out=out).code == "EXPR0207"
    assert refused(Expression("size(@0)"), f32([1, 2]), out=f32([1, 2])).code == "EXPR0207"


def test_an_out_that_overlaps_an_operand_is_computed_next_to_it(tier):
    memory = np.arange(100_000, dtype=np.float32)
    expected = memory[:-1] + memory[:-1] * 2
    e = Expression("add(@0,mul(@0,2))", tier=tier)
    e(memory[:5].copy())
    for size in (10, 60_000):
        fresh = np.arange(100_000, dtype=np.float32)
        e(fresh[:size], out=fresh[1 : size + 1])
        np.testing.assert_array_equal(fresh[1 : size + 1], expected[:size])


def test_default_float_may_be_float64():
    assert Expression("div(@0,4)", default_float=DType.FLOAT64)(i32([1])).dtype == np.float64


def test_complex_numbers():
    z = np.array([3 + 4j, -1j], np.complex64)
    assert Expression("abs(@0)")(z).tolist() == [5, 1]
    result = Expression("mul(@0,2.000000e+00-3.000000e+00j)")(f32([1, 2]))
    assert (result.dtype, result[1]) == (np.complex64, 4 - 6j)


def test_special_values(tier):
    x = f32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42])
    assert np.array_equal(Expression("sign(@0)", tier=tier)(x), f32([0, 0, 1, -1, 0, 1]))
    assert np.array_equal(Expression("maximum(@0,1)", tier=tier)(x), f32([1, 1, np.inf, 1, np.nan, 1]), equal_nan=True)
    assert np.array_equal(
        Expression("pow(@0,0.5)", tier=tier)(x)[:5], f32([0, 0, np.inf, np.nan, np.nan]), equal_nan=True
    )
    assert np.array_equal(
        Expression("reciprocal(@0)", tier=tier)(x), f32([np.inf, -np.inf, 0, -0.0, np.nan, np.inf]), equal_nan=True
    )


def test_functions_of_another_table_are_computed_by_their_meaning(tier):
    table = {
        **NUMPY_FUNCTIONS,
        "relu": Function("relu", Signature((1,), "f"), lambda x: np.maximum(x, 0)),
    }
    e = Expression("neg(relu(@0))", table, tier=tier)
    assert e(f32([-1, 2])).tolist() == [0, -2]
    x = np.linspace(-1, 1, 200_000, dtype=np.float32)
    np.testing.assert_array_equal(e(x), -np.maximum(x, 0))


def test_pages_give_functions_their_meaning():
    table = function_table({"add": lambda x, y: x + y + 1})
    text = Expression("add(@0,@0)", table)
    assert table["add"].compute(f32([1]), f32([1])) == 3
    assert table["mul"].compute is not None
    assert text.operand_count == 1
    with pytest.raises(ValueError, match="unknown expression function sigmoid"):
        function_table({"sigmoid": np.exp})


def test_the_fused_tier_needs_its_compiler(monkeypatch):
    monkeypatch.setattr("graphport.expression.fused.engine.is_available", lambda: False)
    finding = refused(Expression, "@0", tier="fused")
    assert (finding.code, finding.help) == ("EXPR0209", "pip install 'llvmlite<1,>=0.45'")
    assert Expression("add(@0,1)")(f32([1])) == 2


def test_repr_contains_the_expression():
    assert repr(Expression(" add( @0 , 1.50 )")) == "Expression('add(@0,1.50)')"
