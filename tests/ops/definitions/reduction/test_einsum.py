"""Sums over products against ONNX Runtime."""

import numpy as np
import pytest

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.reduction import Einsum
from tests.every import every
from tests.ops.facts import facts_of
from tests.ops.oracle import check_operator, check_shapes


def numbers(*shape, dtype=np.float32, seed=0):
    return np.asarray(np.random.default_rng([seed, *shape]).normal(size=shape) * 3).astype(dtype)


CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhwc,hkc->bhwk", (1, 2, 3, 4), (2, 5, 4)),
    ("i,j->ij", (3,), (4,)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,cb", (2, 3), (4, 2)),
    ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 4)),
    ("...i->...", (2, 3)),
    ("i...->...", (2, 3)),
    ("a...b,b...->a...", (2, 3, 4), (4, 3)),
    ("ij, jk -> ik", (2, 3), (3, 4)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)),
    (",ij->ij", (), (2, 3)),
    ("Ab,bC->AC", (2, 3), (3, 4)),
]


@every("case", CASES, ids=lambda case: case[0])
@every("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_einsum_is_that_of_onnx_runtime(case, dtype):
    equation, *shapes = case
    check_operator(
        Einsum,
        [numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)],
        equation=equation,
        tolerance=1e-4,
    )


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64])
def test_einsum_supports_every_dtype(dtype):
    a, b = (np.abs(numbers(3, 3, seed=seed)).astype(dtype) for seed in (0, 1))
    found = Einsum(a, b, equation="ij,jk->ik")
    assert found.dtype == dtype
    if dtype is np.float16:
        np.testing.assert_array_equal(found, (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype))
    else:
        np.testing.assert_array_equal(found, a @ b)
    check_shapes(Einsum, [a, b], [found], equation="ij,jk->ik")


def test_axes_without_a_letter_broadcast_from_the_last():
    a, b = numbers(5, 2, 3), numbers(3, 4)
    found = Einsum(a, b, equation="...ij,...jk->...ik")
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)
    check_shapes(Einsum, [a, b], [found], equation="...ij,...jk->...ik")


def test_axes_of_1_broadcast():
    a, b = numbers(1, 3), numbers(4, 3)
    found = Einsum(a, b, equation="ij,ij->ij")
    np.testing.assert_allclose(found, a * b)
    check_shapes(Einsum, [a, b], [found], equation="ij,ij->ij")


def test_einsum_infers_dims_by_letter():
    n, m = Symbol("N", 1), Symbol("M", 1)
    facts = [TensorFact(DType.FLOAT32, (2, n, 8)), TensorFact(DType.FLOAT32, (2, m, 8))]
    assert facts_of(Einsum, facts, {"equation": "bid,bjd->bij"}, 1)[0].shape == (2, n, m)


@pytest.mark.parametrize(
    ("equation", "shapes", "match"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "3 and 4 do not broadcast"),
        ("ij,jk->ik", [(2, 3)], "has 2 operands, the node 1"),
        ("ij->ij", [(2, 3, 4)], "operand 0 has rank 3, its term 'ij' 2 axes"),
        ("ij...->ij", [(2,)], "its term 'ij...' at least 2 axes"),
        ("i1->i", [(2, 2)], "has a term 'i1'"),
        ("i......->i", [(2, 2)], "has a term"),
        ("ij->ik", [(2, 3)], "has the result 'ik'"),
        ("ij->ii", [(2, 3)], "has the result 'ii'"),
        ("ij->...i", [(2, 3)], r"has the result '\.\.\.i'"),
        ("ij->i->j", [(2, 3)], "has a term 'i->j'"),
    ],
)
def test_equations_that_make_no_sense_are_refused(equation, shapes, match):
    with pytest.raises(ShapeError, match=match):
        facts_of(Einsum, [TensorFact(DType.FLOAT32, shape) for shape in shapes], {"equation": equation}, 1)
