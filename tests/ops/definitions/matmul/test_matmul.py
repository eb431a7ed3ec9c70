"""Products of matrices against ONNX Runtime, and what their shape rules refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.matmul import Gemm, MatMul, MatMulInteger, QLinearMatMul
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator, run_ort, run_word


def random(*shape, dtype: Any = np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((1, 4), (4, 1)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matrix_product_is_that_of_onnx_runtime(a, b):
    check_operator(MatMul, [random(*a), random(*b, seed=1)], tolerance=1e-4)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, np.float64])
def test_matrix_product_keeps_the_element_type(dtype):
    a, b = (np.abs(random(*shape) * 9).astype(dtype) for shape in ((3, 4), (4, 5)))
    check_operator(MatMul, [a, b])


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=str)
def test_products_of_float16_values_are_summed_in_single_precision(dtype):
    a = np.ones((1, 2049), dtype.numpy)
    expected = np.float32(2049).astype(dtype.numpy)
    for op_def in (MatMul, Gemm):
        y = op_def(a, a.T)
        assert y.dtype == dtype.numpy
        assert y[0, 0] == expected


@given(
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([None, (3, 5), (1, 5), (3, 1), (5,), (1,), ()]),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([1.0, -2.0]),
)
def test_general_product_is_that_of_onnx_runtime(trans_a, trans_b, summand, alpha, beta):
    a = random(*((4, 3) if trans_a else (3, 4)))
    b = random(*((5, 4) if trans_b else (4, 5)), seed=1)
    c = None if summand is None else np.asarray(random(*summand, seed=2))
    check_operator(Gemm, [a, b, c], transA=trans_a, transB=trans_b, alpha=alpha, beta=beta, tolerance=1e-4)


@pytest.mark.parametrize("opset", [7, 9, 11])
def test_old_products_are_equivalent(opset):
    inputs = [random(3, 4), random(4, 5, seed=1), random(5, seed=2)]
    old_opset("Gemm", opset, inputs, alpha=0.5, tolerance=1e-4)
    old_opset("MatMul", min(opset, 9), inputs[:2], tolerance=1e-4)


@pytest.mark.parametrize("broadcast", [0, 1])
def test_the_first_general_products_requested_broadcasting(broadcast):
    a, b, c = random(3, 4), random(4, 5, seed=1), random(*((5,) if broadcast else (3, 5)), seed=2)
    (found,) = run_word("onnx", "Gemm", [a, b, c], opset=6, broadcast=broadcast, beta=0.5)
    compare(found, a @ b + 0.5 * c, tolerance=1e-5)


@pytest.mark.parametrize("types", [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)])
def test_integer_product_is_that_of_onnx_runtime(types):
    rng = np.random.default_rng(0)
    a = rng.integers(np.iinfo(types[0]).min, np.iinfo(types[0]).max, (2, 3, 4)).astype(types[0])
    # Seven bits: kernels for old processors saturate the sum of two products of eight bits.
    b = rng.integers(0, 64, (4, 5)).astype(types[1])
    check_operator(MatMulInteger, [a, b])
    check_operator(MatMulInteger, [a, b, np.asarray(3, types[0]), np.asarray(2, types[1])])
    check_operator(MatMulInteger, [a, b, None, rng.integers(0, 9, 5).astype(types[1])])


def test_matmulinteger_accepts_per_row_zero_points():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (3, 4)).astype(np.uint8), rng.integers(0, 256, (4, 5)).astype(np.uint8)
    zeros = rng.integers(0, 256, 3).astype(np.uint8)
    expected = (a.astype(np.int32) - zeros[:, None]) @ b.astype(np.int32)
    found = run_operator(MatMulInteger, [a, b, zeros])
    np.testing.assert_array_equal(found[0], expected)
    check_shapes(MatMulInteger, [a, b, zeros], found)
    stacked = run_operator(MatMulInteger, [np.stack([a, a]), b, np.stack([zeros, zeros])[:, :, None]])
    np.testing.assert_array_equal(stacked[0], np.stack([expected, expected]))


def quantized(shape, seed):
    return np.random.default_rng([seed, *shape]).integers(0, 128, shape).astype(np.uint8)


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))])
def test_quantized_product_is_that_of_onnx_runtime(shapes):
    a, b = (quantized(shape, seed) for seed, shape in enumerate(shapes))
    scalars = [np.float32(0.02), np.uint8(100)], [np.float32(0.03), np.uint8(64)], [np.float32(0.02), np.uint8(128)]
    inputs = [a, *scalars[0], b, *scalars[1], *scalars[2]]
    check_operator(QLinearMatMul, [np.asarray(x) for x in inputs], opset=10)


def test_qlinearmatmul_accepts_per_column_scales():
    a, b = quantized((3, 4), 0), quantized((4, 5), 1)
    scales = np.linspace(0.01, 0.05, 5).astype(np.float32)
    inputs = [a, np.float32(0.02), np.uint8(100), b, scales, np.full(5, 64, np.uint8), np.float32(0.02), np.uint8(128)]
    inputs = [np.asarray(x) for x in inputs]
    compare(run_operator(QLinearMatMul, inputs)[0], run_ort("QLinearMatMul", inputs, opset=10)[0])


def test_quantized_product_of_eight_bit_floats_is_no_rounded_integer():
    dtype = DType.FLOAT8E4M3FN.numpy
    a, b = np.array([[1.5, 0.25]]).astype(dtype), np.array([[2.0], [4.0]]).astype(dtype)
    one, zero = np.asarray(1.0, np.float32), np.asarray(0.0).astype(dtype)
    found = run_operator(QLinearMatMul, [a, one, zero, b, one, zero, one, zero])[0]
    assert found.dtype == dtype
    assert float(found[0, 0]) == 4.0


def fact(*shape, dtype=DType.FLOAT32):
    return TensorFact(dtype, shape)


BYTE = DType.UINT8


@pytest.mark.parametrize(
    ("op_def", "operands", "attributes", "message"),
    [
        pytest.param(MatMul, [fact(3, 4), fact(3, 5)], {}, "4 columns, b has 3 rows", id="inner dims"),
        pytest.param(MatMul, [fact(), fact(3)], {}, "a has rank 0", id="scalar"),
        pytest.param(MatMul, [fact(2, 3, 4), fact(3, 4, 5)], {}, "do not broadcast", id="batch"),
        pytest.param(Gemm, [fact(1, 3, 4), fact(4, 5)], {}, "a has rank 3", id="no matrix"),
        pytest.param(Gemm, [fact(3, 4), fact(4, 5)], {"transB": 1}, "4 columns", id="transposed"),
        pytest.param(Gemm, [fact(3, 4), fact(4, 5), fact(4)], {}, "c has the shape", id="summand"),
        pytest.param(Gemm, [fact(1, 4), fact(4, 5), fact(3, 5)], {}, "c has the shape", id="summand grows"),
        pytest.param(Gemm, [fact(3, 4), fact(4, 5), fact(1, 3, 5)], {}, "c has rank 3", id="summand's rank"),
        pytest.param(
            MatMulInteger,
            [fact(3, 4, dtype=BYTE), fact(4, 5, dtype=BYTE), fact(4, dtype=BYTE)],
            {},
            "a_zero_point has 4",
            id="rows",
        ),
        pytest.param(
            MatMulInteger,
            [fact(2, 3, 4, dtype=BYTE), fact(4, 5, dtype=BYTE), None, fact(2, 1, 5, dtype=BYTE)],
            {},
            "b_zero_point has rank 3",
            id="columns",
        ),
    ],
)
def test_products_refuse(op_def, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(op_def, operands, attributes, 1)


def test_symbolic_batches_broadcast():
    n = Symbol("N")
    (found,) = Inference().infer_operator(MatMul, [fact(n, 3, 4), fact(1, 4, 5)], {}, 1)
    assert found == fact(n, 3, 5)
