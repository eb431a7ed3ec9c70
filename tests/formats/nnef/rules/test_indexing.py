"""Picking elements in NNEF: what its words mean, and that saying a page in it keeps the meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.indexing import Gather, Slice
from tests.every import every
from tests.ops.oracle import compare, run_word, there_and_back

X = np.arange(120, dtype=np.float32).reshape(2, 6, 10)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_picks_entries(shape, axis):
    places = np.asarray(np.random.default_rng(0).integers(0, X.shape[axis], shape))
    compare(run_word("nnef", "gather", [X, places], symbolic=True, axis=axis)[0], np.take(X, places, axis))


def test_gather_counts_axes_from_the_front():
    with pytest.raises(ShapeError, match="axis -1 is out of range"):
        run_word("nnef", "gather", [X, np.array([0])], axis=-1)


SLICES = [
    ((1,), (0,), (3,), (), np.s_[:, 0:3]),
    ((1, 2), (1, -4), (0, -1), (), np.s_[:, 1:, -4:-1]),
    ((2,), (2,), (0,), (1,), np.s_[:, :, 2:]),
    ((2,), (1,), (9,), (3,), np.s_[:, :, 1:9:3]),
    ((1,), (-1,), (-7,), (-1,), np.s_[:, ::-1]),
    ((1,), (-1,), (0,), (-1,), np.s_[:, :0:-1]),
    ((1,), (4,), (1,), (-2,), np.s_[:, 4:1:-2]),
    ((0, 1), (0, 2), (1, 4), (), np.s_[0:1, 2:4]),
    ((1,), (3,), (3,), (), np.s_[:, 3:3]),
    ((1,), (1,), (100,), (), np.s_[:, 1:]),
]


@every(("axes", "begin", "end", "stride", "expected"), SLICES)
@every("symbolic", [False, True])
def test_slice_takes_ranges(axes, begin, end, stride, expected, symbolic):
    found = run_word("nnef", "slice", [X], symbolic=symbolic, axes=axes, begin=begin, end=end, stride=stride)[0]
    compare(found, X[expected])


def test_slice_takes_the_extent_of_an_open_axis():
    n = Symbol("i0_1")
    found = run_word("nnef", "slice", [X], symbolic=True, axes=(1,), begin=(2,), end=(n,), stride=())[0]
    compare(found, X[:, 2:])
    with pytest.raises(UnsupportedError, match="depends on an unknown extent"):
        run_word("nnef", "slice", [X], symbolic=True, axes=(1,), begin=(0,), end=(n - 1,), stride=())


@pytest.mark.parametrize(
    ("axes", "begin", "end", "stride", "match"),
    [
        ((1, 2), (0,), (1, 1), (), "axes, begin, end and stride have 2, 1, 2 and 2 elements"),
        ((3,), (0,), (1,), (), r"axes \[3\] are not all inside a tensor of rank 3"),
        ((1,), (0,), (1,), (0,), "stride is 0"),
        ((1,), (4,), (2,), (), "empty range from 4 to 2 with stride 1 in 6 elements"),
        ((1,), (2,), (4,), (-1,), "empty range from 2 to 4 with stride -1"),
        ((1,), (-9,), (2,), (), "empty range from -9 to 2"),
    ],
)
def test_slice_refuses_what_is_no_range(axes, begin, end, stride, match):
    with pytest.raises(ShapeError, match=match):
        run_word("nnef", "slice", [X], axes=axes, begin=begin, end=end, stride=stride)


@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -1, 1, 2]), st.booleans())
def test_exporting_a_slice_preserves_its_semantics(start, end, step, far):
    end = (2**63 - 1 if step > 0 else -(2**63)) if far else end
    operands = [np.array([number], np.int64) for number in (start, end, 1, step)]
    words = there_and_back(Slice, [X, *operands], constants=(1, 2, 3, 4))
    taken = Slice(X, *operands).size
    assert words == (["slice"] if taken else None)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(1, 2**63 - 1, 1), (-3, 2**63 - 1, 1), (1, -1, 1), (2, 5, 1), (1, 2**63 - 1, 2)]
)
def test_exporting_a_slice_of_open_axes_preserves_its_semantics(start, end, step):
    operands = [np.array([number], np.int64) for number in (start, end, 1, step)]
    assert there_and_back(Slice, [X, *operands], constants=(1, 2, 3, 4), symbolic=True) == ["slice"]


@pytest.mark.parametrize(("start", "end"), [(-1, -(2**63)), (2**31 - 1, -(2**63)), (4, 1)])
def test_exporting_a_slice_backward_preserves_its_semantics(start, end):
    operands = [np.array([number], np.int64) for number in (start, end, 1, -1)]
    for symbolic in (False, True):
        assert there_and_back(Slice, [X, *operands], constants=(1, 2, 3, 4), symbolic=symbolic) == ["slice"]


def test_a_slice_without_axes_and_steps():
    assert there_and_back(Slice, [X, np.array([0, 1]), np.array([1, 4])], constants=(1, 2)) == ["slice"]


def test_slices_that_nnef_cannot_express():
    zero, one = np.array([0]), np.array([1])
    assert there_and_back(Slice, [X, zero, one, one]) is None
    assert there_and_back(Slice, [X, zero, zero, one], constants=(1, 2, 3), symbolic=True) is None


def test_exporting_a_gather_preserves_its_semantics():
    assert there_and_back(Gather, [X, np.array([0, 2])], axis=-2, symbolic=True) == ["gather"]
    assert there_and_back(Gather, [X, np.array([[0, -1]])], axis=1, constants=(1,)) == ["gather"]
    assert there_and_back(Gather, [X, np.array(-2)], axis=2, constants=(1,)) == ["gather"]
    assert there_and_back(Gather, [X, np.array([0, -1])], axis=1, constants=(1,), symbolic=True) is None
