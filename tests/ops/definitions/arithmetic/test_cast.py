"""Casts against ONNX Runtime and the standard's table of special values."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Bytes, FileStorage
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic.cast import Cast, CastLike
from tests.every import every
from tests.ops.facts import facts_of, single
from tests.ops.oracle import check_operator, check_shapes, old_opset, run_word
from tests.ops.standard import check_by_standard

PLAIN = [
    DType.FLOAT16,
    DType.FLOAT32,
    DType.FLOAT64,
    DType.BOOL,
    *(DType.of(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
]
EXOTIC = [
    DType.BFLOAT16,
    DType.FLOAT8E4M3FN,
    DType.FLOAT8E4M3FNUZ,
    DType.FLOAT8E5M2,
    DType.FLOAT8E5M2FNUZ,
    DType.INT4,
    DType.UINT4,
    DType.INT2,
    DType.UINT2,
    DType.FLOAT4E2M1,
]


@every(("of", "to"), list(itertools.product(PLAIN, PLAIN)), ids=str)
def test_cast_is_that_of_onnx_runtime(of, to):
    # Reals that do not fit an integer type have no defined cast.
    x = np.array([0, 1, 2, 3, 100, 127] if of.kind in "ub" or to.kind == "u" else [0, -1, 1, -100, 2, 127])
    if of.is_floating:
        x = x * 0.75
    check_operator(Cast, [x.astype(of.numpy).reshape(2, 3)], to=to)


def test_numbers_read_from_a_file_are_cast_exactly():
    # 2^40 + 7 has no float32 and no int32; a file's numbers name their byte order, which makes their type another object.
    widest = {"b": [0, 1], "u": [0, 200], "i": [-3, 100], "f": [-0.0, 96.0]}
    far = {
        DType.INT64: [2**63 - 1, 2**40 + 7, -(2**32)],
        DType.UINT64: [2**63 + 5, 2**32],
        DType.INT32: [2**31 - 1, 2**24 + 1],
        DType.UINT32: [2**32 - 1, 2**24 + 1],
        DType.FLOAT64: [2.0**40 + 7, 16777217.0],
    }
    for of, to in itertools.product(PLAIN, PLAIN):
        numbers = np.array(far.get(of, widest[of.kind]), of.numpy)
        if (of.is_floating or of.kind == "i") and to.kind == "u":
            numbers = np.abs(numbers)
        with np.errstate(all="ignore"):
            expected = numbers != 0 if to is DType.BOOL else numbers.astype(to.numpy)
        read = FileStorage(Bytes(numbers.tobytes()), 0, of, numbers.shape).numpy()
        for given in (
            read,
            numbers.astype(numbers.dtype.newbyteorder("<")),
            numbers.astype(">" + numbers.dtype.str[1:]),
        ):
            result = Cast(given, to=to)
            assert (result.dtype, result.tobytes()) == (to.numpy, expected.tobytes()), (of, to)


@every("to", PLAIN[4:], ids=str)
def test_integers_wrap(to):
    x = np.array([0, 255, -1, 300, -300, 2**40 + 7, -(2**63), 2**63 - 1])
    check_operator(Cast, [x], to=to)


@every("of", [DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.UINT8, DType.BOOL], ids=str)
@every("to", EXOTIC, ids=str)
def test_cast_to_a_type_that_numpy_lacks_is_that_of_the_standard(of, to):
    x = np.array([0, 1, 2, 3, 1, 0]) if to.bits < 8 else np.array([0, 1, 2, 3, 17, 100])
    check_by_standard(Cast, [x.astype(of.numpy)], to=to)


@every("of", EXOTIC, ids=str)
@every("to", [DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.INT8, DType.BOOL, *EXOTIC], ids=str)
def test_cast_from_non_numpy_dtype_converts_the_value(of, to):
    x = np.array([0, 1, 1, 0], np.float32).astype(of.numpy)
    found = Cast(x, to=to)
    assert found.dtype == to.numpy
    assert found.astype(np.float32).tolist() == [0, 1, 1, 0]
    check_shapes(Cast, [x], [found], to=to)


@every("to", EXOTIC[1:5], ids=str)
@pytest.mark.parametrize("saturate", [0, 1])
def test_eight_bit_floats_saturate_or_not(to, saturate):
    x = single([1e6, -1e6, np.inf, -np.inf, np.nan, 0.0, 1.0, 1e-9])
    found = Cast(x, to=to, saturate=saturate).astype(np.float32)
    largest = float(ml_dtypes.finfo(to.numpy).max)
    beyond = largest if saturate else np.inf if to is DType.FLOAT8E5M2 else np.nan
    np.testing.assert_array_equal(found, [beyond, -beyond, beyond, -beyond, np.nan, 0, 1, 0])


@pytest.mark.parametrize(
    ("number", "mode", "saturate", "expected"),
    [
        (3.0, "up", 1, 4.0),
        (3.0, "down", 1, 2.0),
        (3.0, "nearest", 1, 4.0),
        (2.9, "nearest", 1, 2.0),
        (4.0, "up", 1, 4.0),
        (0.0, "up", 1, 2.0**-127),
        (0.0, "nearest", 0, np.nan),
        (np.nan, "up", 1, np.nan),
        (np.inf, "up", 1, 2.0**127),
        (np.inf, "nearest", 0, np.nan),
        (2.0**-140, "up", 1, 2.0**-127),
        (3e38, "up", 1, 2.0**127),
        (3e38, "up", 0, np.nan),
        (2.0**-127, "down", 0, 2.0**-127),
    ],
)
def test_powers_of_two_follow_the_table(number, mode, saturate, expected):
    found = Cast(single([number]), to=DType.FLOAT8E8M0, round_mode=mode, saturate=saturate)
    np.testing.assert_array_equal(found.astype(np.float64), [expected])


def test_nibbles_wrap():
    assert Cast(np.array([7, 8, -9, 17]), to=DType.INT4).astype(int).tolist() == [7, -8, 7, 1]
    assert Cast(single([1.9, 5.2]), to=DType.UINT2).astype(int).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (single(0.1), "0.1"),
        (single(16777216), "16777216"),
        (single(-0.0), "-0"),
        (single(1e-5), "1e-05"),
        (single(3.4e38), "3.4e+38"),
        (np.float64(1 / 3), "0.3333333333333333"),
        (np.float16(0.1), "0.099975586"),
        (single(np.nan), "NaN"),
        (single(np.inf), "INF"),
        (single(-np.inf), "-INF"),
        (np.int64(-(2**63)), str(-(2**63))),
        (np.bool_(True), "1"),
    ],
)
def test_cast_to_string_writes_the_shortest_decimal(number, text):
    found = Cast(np.array([number]), to=DType.STRING)
    assert found.tolist() == [text]
    if np.isfinite(number):
        back = Cast(found, to=DType.of(np.array(number).dtype))
        assert back.tolist() == [number]


@every("to", [DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64], ids=str)
def test_cast_from_string_matches_onnx_runtime(to):
    words = ["1.5", "-3", "0", "1e3", "+7"] if to.is_floating else ["15", "-3", "0", "+7"]
    special = ["INF", "-INF", "NaN", "nan", "+INF"] if to.is_floating else []
    check_operator(Cast, [np.array(words + special, object)], to=to)


def test_text_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="hello"):
        Cast(np.array(["hello"], object), to=DType.FLOAT32)


def test_integers_of_text_wrap():
    assert Cast(np.array(["300", "-1"], object), to=DType.UINT8).tolist() == [44, 255]
    assert Cast(np.array([str(2**64 - 1)], object), to=DType.UINT64).tolist() == [2**64 - 1]


def test_text_stays_text():
    assert Cast(np.array(["a"], object), to=DType.STRING).tolist() == ["a"]


@every("to", [np.float16, np.int64, np.bool_, object])
def test_castlike_uses_the_dtype_of_its_second_operand(to):
    x = single([0, 1, 2])
    found = CastLike(x, np.zeros(2, to))
    np.testing.assert_array_equal(found, Cast(x, to=DType.of(np.dtype(to))))
    target = TensorFact(DType.of(np.dtype(to)), (2,))
    (fact,) = facts_of(CastLike, [TensorFact(DType.FLOAT32, (3,)), target], {}, 1)
    assert fact == TensorFact(DType.of(np.dtype(to)), (3,))
    (fact,) = facts_of(CastLike, [TensorFact(DType.FLOAT32, (3,)), TensorFact(None, None)], {}, 1)
    assert fact == TensorFact(None, (3,))


N = Symbol("N", 1)


def cast_fact(fact, to):
    return facts_of(Cast, [fact], {"to": to}, 1)[0]


def test_dims_stay_dims_in_wide_integers():
    shape = TensorFact(DType.INT64, (2,)).with_elements([N, 3])
    assert cast_fact(shape, DType.INT32).elements == (N, 3)
    assert cast_fact(shape, DType.INT16).elements is None
    assert cast_fact(TensorFact(DType.INT64, (1,), (2**63 - 1,)), DType.INT32).elements == (-1,)
    assert cast_fact(TensorFact(DType.INT64, (2,), (2**63 - 1, N)), DType.INT32).elements is None
    assert cast_fact(TensorFact(DType.INT64, (2,), (0, 5)), DType.BOOL).elements == (0, 1)


def test_short_constants_keep_their_numbers():
    assert cast_fact(TensorFact(DType.INT64, (2,), (2, 3)), DType.FLOAT32).reals == (2.0, 3.0)
    assert cast_fact(TensorFact(DType.FLOAT32, (2,), reals=(2.5, -3.5)), DType.INT64).elements == (2, -3)
    assert cast_fact(TensorFact(DType.FLOAT32, (1,), reals=(float("inf"),)), DType.INT64).elements is None


def test_unknown_modes_and_types_are_refused():
    for attributes, match in (
        ({"to": DType.FLOAT32, "round_mode": "sideways"}, "round_mode"),
        ({"to": DType.COMPLEX64}, "complex64"),
    ):
        with pytest.raises(ShapeError, match=match):
            facts_of(Cast, [TensorFact(DType.FLOAT32, (1,))], attributes, 1)
    with pytest.raises(ShapeError, match="the attribute to is missing"):
        facts_of(Cast, [TensorFact(DType.FLOAT32, (1,))], {}, 1)


@pytest.mark.parametrize("opset", [6, 9, 13, 19, 21])
def test_unchanged_forms_are_those_of_onnx_runtime(opset):
    old_opset("Cast", opset, [single([0, 1.5, -2.5])], to=DType.INT32)


@pytest.mark.parametrize(
    ("text", "dtype"), [("FLOAT", np.float32), ("DOUBLE", np.float64), ("INT64", np.int64), ("BOOL", bool)]
)
def test_oldest_form_spells_the_type_out(text, dtype):
    assert run_word("onnx", "Cast", [np.array([1, 2], np.int32)], opset=1, to=text)[0].dtype == dtype


def test_oldest_form_refuses_a_type_that_does_not_exist():
    with pytest.raises(ShapeError, match="unknown element type 'QUUX'"):
        run_word("onnx", "Cast", [np.array([1], np.int32)], opset=1, to="QUUX")


@every(
    ("known", "to", "expected"),
    [
        ([3, Symbol("N")], DType.UINT32, (3, Symbol("N"))),
        ([3, Symbol("N") - 5], DType.UINT32, None),
        ([3, Symbol("N") - 5], DType.INT32, (3, Symbol("N") - 5)),
        ([3, -1], DType.UINT64, (3, 2**64 - 1)),
        ([3, -1], DType.INT64, (3, -1)),
    ],
    ids=str,
)
def test_elements_are_those_of_the_type(known, to, expected):
    fact = TensorFact(DType.INT64, (2,)).with_elements(known)
    assert facts_of(Cast, [fact], {"to": to}, 1)[0].elements == expected


def test_reals_below_zero_are_no_elements_of_a_type_without_sign():
    fact = TensorFact(DType.FLOAT32, (2,), reals=(-1.5, 2.0))
    assert facts_of(Cast, [fact], {"to": DType.UINT32}, 1)[0].elements is None
    assert facts_of(Cast, [fact], {"to": DType.INT32}, 1)[0].elements == (-1, 2)
