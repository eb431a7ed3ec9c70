"""Shapes and orders against ONNX Runtime, over dims, and what the shape rules refuse."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dims import Symbol, evaluate
from graphport.core.dtypes import DType
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Identity,
    Reshape,
    Shape,
    Size,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
    resolve_target_shape,
)
from tests.draws import times
from tests.every import every
from tests.ops.facts import f32, fact_of, ints, refuse
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_word

OP_DEFS = registry.op_defs()
TYPES = [np.float32, np.int64, np.bool_, np.float64, np.uint8, object]
N, M = Symbol("N", 1), Symbol("M", 1)


def numbers(shape, dtype=np.float32, seed=0):
    x = np.random.default_rng([seed, *shape]).integers(0, 100, shape)
    return np.asarray(x).astype(str).astype(object) if dtype is object else np.asarray(x).astype(dtype)


def text(fact):
    return [str(dim) for dim in fact.shape]


@pytest.mark.parametrize("dtype", [*TYPES, ml_dtypes.bfloat16])
def test_identity_is_its_operand(dtype):
    x = numbers((2, 3), dtype)
    assert Identity(x) is x
    for fact in (SequenceFact(f32(2)), OptionalFact(f32(2)), TensorFact(DType.INT64, (1,), (N,))):
        assert fact_of(Identity, fact) == fact


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (-2, None), (0, 2), (1, -1), (-9, 9), (3, 1)])
def test_shape_is_that_of_onnx_runtime(start, end):
    check_operator(Shape, [numbers((2, 3, 4))], start=start, end=end)


def test_shape_and_size_return_symbolic_dims():
    assert fact_of(Shape, f32(N, 3, M), start=1).elements == (3, M)
    assert [str(d) for d in fact_of(Size, f32(N, 3, M)).elements] in (["3*M*N"], ["3*N*M"])
    check_operator(Size, [numbers((2, 3, 4))])
    check_operator(Size, [numbers(())])


RESHAPES = [
    ((2, 3, 4), [4, 6]), ((2, 3, 4), [-1]), ((2, 3, 4), [0, -1]), ((2, 3, 4), [0, 0, 2, 2]), ((2, 3, 4), [1, -1, 4]),
    ((6,), [2, 3]), ((1,), []), ((), [1, 1]), ((0, 3), [3, 0]), ((2, 0, 3), [0, 0, -1]), ((2, 3), [3, -1]),
]  # fmt: skip


@every(("shape", "target"), [case for case in RESHAPES if case[1] != [0, 0, -1]])
@every("dtype", TYPES)
def test_reshape_is_that_of_onnx_runtime(shape, target, dtype):
    allowzero = int(shape == (0, 3))
    check_operator(Reshape, [numbers(shape, dtype), np.array(target, np.int64)], allowzero=allowzero)


def test_reshape_with_dims():
    assert text(fact_of(Reshape, f32(N, 3, 4), ints(0, -1))) == ["N", "12"]
    assert text(fact_of(Reshape, f32(N, 6), ints(-1, 3))) == ["2*N", "3"]
    assert text(fact_of(Reshape, f32(N, M, 6), ints(N, -1))) == ["N", "6*M"]
    assert text(fact_of(Reshape, f32(6), ints(N, 2))) == ["N", "2"]
    assert fact_of(Reshape, f32(6), TensorFact(DType.INT64, (2,))).rank == 2
    assert fact_of(Reshape, f32(6), TensorFact(DType.INT64, (N,))).shape is None
    unknown = TensorFact(DType.FLOAT32, None)
    assert fact_of(Reshape, unknown, ints(2, 3)).shape == (2, 3)
    assert fact_of(Reshape, unknown, ints(-1, 3)).shape[1] == 3
    assert fact_of(Reshape, unknown, ints(N, 0)).shape[0] == N


def test_dim_used_as_a_divisor_is_not_zero():
    # [1, -1, n] and then [-1, n], as exporters write it: m // n is an extent, so that n is no 0 which would copy it.
    n, m = Symbol("N"), Symbol("M")
    parted = resolve_target_shape((m,), (1, -1, n), copies_zero=True)
    assert resolve_target_shape(parted, (-1, n), copies_zero=True)[1] == n


def test_reshape_dim_that_may_be_zero_copies_the_operand_dim():
    n, height, width, other = (Symbol(name, 0) for name in ("N", "H", "W", "K"))
    kept = resolve_target_shape((n, 3 * other), (n, other, -1), copies_zero=True)
    assert kept == (n, other, 3)
    merged = resolve_target_shape((n, height, width), (n, height * width), copies_zero=True)
    assert [evaluate(dim, {"N": 2, "H": 3, "W": 4}) for dim in merged] == [2, 12]
    # [0, 0] copies the height: 0 * 3 elements are as many as 0 * 3 * 0.
    assert [evaluate(dim, {"N": 0, "H": 3, "W": 0}) for dim in merged] == [0, 3]
    assert resolve_target_shape((4, height, width), (4, height * width), copies_zero=True) == (4, height * width)
    assert resolve_target_shape((n, height, width), (n, height * width), copies_zero=False) == (n, height * width)


def test_reshape_of_a_vector_keeps_its_elements():
    assert fact_of(Reshape, ints(N, 3), ints(2)).elements == (N, 3)
    assert fact_of(Reshape, ints(N), TensorFact(DType.INT64, (0,), ())).elements == (N,)


def test_reshape_rejects_a_different_element_count():
    refuse(Reshape, [f32(2, 3), ints(4, 2)], "6 elements do not fill the shape")
    refuse(Reshape, [f32(2, 3), ints(-1, -1)], "leaves more than one dim open")
    refuse(Reshape, [f32(2, 3), ints(-2, 3)], "has a negative dim")
    refuse(Reshape, [f32(2, 3), ints(4, -1)], "6 elements are not a multiple of 4")
    refuse(Reshape, [f32(2, 3), ints(6, 1, 0)], "which copies a dim of the operand")
    refuse(Reshape, [f32(0, 3), ints(0, -1)], "is ambiguous, because another dim is 0", allowzero=1)


@pytest.mark.parametrize("axis", range(-3, 4))
def test_flatten_is_that_of_onnx_runtime(axis):
    check_operator(Flatten, [numbers((2, 3, 4))], axis=axis)


def test_flatten_of_a_number_and_outside():
    check_operator(Flatten, [numbers(())], axis=0)
    refuse(Flatten, [f32(2, 3)], "axis 3 is outside", axis=3)


@pytest.mark.parametrize("axes", [None, [0], [2], [-1], [0, 2], [-1, 0]])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_squeeze_is_that_of_onnx_runtime(axes, dtype):
    check_operator(Squeeze, [numbers((1, 3, 1), dtype), None if axes is None else np.array(axes)])


def test_squeeze_infers_shapes():
    assert fact_of(Squeeze, f32(1, N, 1), ints(0, 2)).shape == (N,)
    assert fact_of(Squeeze, f32(1, N)).shape == (N,) or fact_of(Squeeze, f32(1, N)).shape is None
    assert fact_of(Squeeze, f32(1, 3)).shape == (3,)
    assert fact_of(Squeeze, f32(1, 2, 3), TensorFact(DType.INT64, (1,))).rank == 2
    assert fact_of(Squeeze, ints(N), ints(0)).elements == (N,)
    refuse(Squeeze, [f32(2, 3), ints(1)], "axis 1 has 3 entries")
    refuse(Squeeze, [f32(2), TensorFact(DType.INT64, (2,))], "2 axes of a tensor of rank 1")


@pytest.mark.parametrize("axes", [[0], [2], [-1], [0, 3], [3, 0], [-1, 1]])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_unsqueeze_is_that_of_onnx_runtime(axes, dtype):
    check_operator(Unsqueeze, [numbers((2, 3), dtype), np.array(axes)])


def test_unsqueeze_infers_shapes():
    assert fact_of(Unsqueeze, TensorFact(DType.INT64, (), (N,)), ints(0)).elements == (N,)
    assert fact_of(Unsqueeze, f32(2), TensorFact(DType.INT64, (2,))).rank == 3
    refuse(Unsqueeze, [f32(2), ints(3)], "axis 3 is outside")
    refuse(Unsqueeze, [f32(2), ints(0, 0)], "name one axis twice")


@every("perm", [None, (0, 1, 2), (2, 0, 1), (1, 0, 2)])
@every("dtype", TYPES)
def test_transpose_is_that_of_onnx_runtime(perm, dtype):
    check_operator(Transpose, [numbers((2, 3, 4), dtype)], perm=perm)


def test_transpose_rejects_an_invalid_perm():
    refuse(Transpose, [f32(2, 3)], r"perm \(0, 0\) is not a permutation of 2 axes", perm=(0, 0))
    refuse(Transpose, [f32(2, 3)], "is not a permutation of 2 axes", perm=(0, 1, 2))


# Pieces


@settings(max_examples=times(40))
@given(st.data())
def test_concat_is_that_of_onnx_runtime(data):
    rank = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(-rank, rank - 1))
    shape = [data.draw(st.integers(0, 3)) for _ in range(rank)]
    dtype = data.draw(st.sampled_from(TYPES))
    xs = []
    for seed in range(data.draw(st.integers(1, 3))):
        shape[axis] = data.draw(st.integers(0, 3))
        xs.append(numbers(tuple(shape), dtype, seed))
    check_operator(Concat, xs, axis=axis)


def test_concat_infers_facts():
    assert text(fact_of(Concat, f32(N, 3), f32(M, 3), f32(2, 3), axis=0)) == ["M+N+2", "3"]
    assert fact_of(Concat, ints(N), ints(3, -1), axis=0).elements == (N, 3, -1)
    partly = fact_of(Concat, f32(N, 3), TensorFact(DType.FLOAT32, None), axis=0)
    assert partly.rank == 2
    assert partly.shape[1] == 3
    assert fact_of(Concat, TensorFact(DType.FLOAT32, None), axis=0).shape is None
    refuse(Concat, [f32(2, 3), f32(2, 4)], "axis 1 of operand 1: 3 and 4 differ", axis=0)
    refuse(Concat, [f32(2, 3), f32(3)], "operands have ranks", axis=0)
    refuse(Concat, [f32(2, 3)], "axis 2 is outside", axis=2)


@pytest.mark.parametrize("lengths", [[2, 3, 1], [6], [0, 6], [1] * 6])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_split_by_lengths_is_that_of_onnx_runtime(lengths, dtype):
    check_operator(Split, [numbers((2, 6), dtype), np.array(lengths)], outputs=len(lengths), axis=-1)


@pytest.mark.parametrize(("extent", "count"), [(6, 3), (5, 3), (7, 2), (4, 1), (10, 4)])
def test_split_by_number_is_that_of_onnx_runtime(extent, count):
    check_operator(Split, [numbers((extent, 2))], outputs=count, num_outputs=count)


def test_split_infers_facts():
    first, second = fact_of(Split, f32(N, 2), count=2, axis=0, num_outputs=2)
    assert text(first) == ["(N+1)//2", "2"]
    assert text(second) == ["N//2", "2"] or evaluate_is(second.shape[0])
    parts = fact_of(Split, f32(6), TensorFact(DType.INT64, (2,)), count=2)
    assert [part.rank for part in parts] == [1, 1]
    unknown = fact_of(Split, TensorFact(DType.FLOAT32, None), None, count=3, num_outputs=3)
    assert [part.dtype for part in unknown] == [DType.FLOAT32] * 3
    pieces = fact_of(Split, ints(N, 2, M), ints(1, 2), count=2)
    assert [piece.elements for piece in pieces] == [(N,), (2, M)]
    refuse(Split, [f32(6), ints(2, 3)], r"the parts \['2', '3'\] do not fill 6 entries")
    refuse(Split, [f32(6), ints(-1, 7)], "are no lengths")
    refuse(Split, [f32(6)], "split and num_outputs are both missing")
    refuse(Split, [f32(6)], "num_outputs is 0", num_outputs=0)
    refuse(Split, [f32(5)], "axis of 5 elements cannot be split into 4 parts of 2", num_outputs=4)
    with pytest.raises(ValueError, match="do not fill 6 entries"):
        Split(numbers((6,)), np.array([2, 3]))


def evaluate_is(dim):
    from graphport.core.dims import evaluate

    return all(evaluate(dim, {"N": n}) == n // 2 for n in range(1, 9))


@pytest.mark.parametrize(
    ("shape", "target"), [((3, 1), [2, 1, 6]), ((3, 1), [3, 4]), ((2, 3), [1, 1]), ((1,), [0]), ((), [2]), ((3,), [])]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_expand_is_that_of_onnx_runtime(shape, target, dtype):
    check_operator(Expand, [numbers(shape, dtype), np.array(target, np.int64)])


def test_expand_infers_shapes():
    assert text(fact_of(Expand, f32(1, 3), ints(N, 1))) == ["N", "3"]
    assert fact_of(Expand, f32(1, 3), TensorFact(DType.INT64, (3,))).rank == 3
    assert fact_of(Expand, f32(1, 3), TensorFact(DType.INT64, (N,))).shape is None
    assert fact_of(Expand, ints(N), ints(3)).elements == (N, N, N)
    refuse(Expand, [f32(3), ints(4)], "3 and 4 do not broadcast")
    refuse(Expand, [f32(1), ints(-1)], "has a negative dim")


@pytest.mark.parametrize("repeats", [[1, 2, 3], [1, 1, 1], [2, 0, 1]])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, object])
def test_tile_is_that_of_onnx_runtime(repeats, dtype):
    check_operator(Tile, [numbers((2, 1, 3), dtype), np.array(repeats)])


def test_tile_infers_facts():
    assert text(fact_of(Tile, f32(2, N), ints(M, 3))) == ["2*M", "3*N"]
    assert fact_of(Tile, f32(2, N), TensorFact(DType.INT64, (2,))).rank == 2
    refuse(Tile, [f32(2, 3), ints(1)], "1 repeats for a tensor of rank 2")
    refuse(Tile, [f32(2), ints(-1)], "the repeats are")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_depth_to_space_is_that_of_onnx_runtime(mode, dtype):
    check_operator(DepthToSpace, [numbers((2, 12, 2, 3), dtype)], blocksize=2, mode=mode)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_space_to_depth_is_that_of_onnx_runtime(dtype):
    check_operator(SpaceToDepth, [numbers((2, 2, 4, 6), dtype)], blocksize=2)


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, object, np.complex64])
def test_blocks_know_every_type(dtype):
    x = numbers((1, 4, 2, 2), dtype)
    back = SpaceToDepth(DepthToSpace(x, blocksize=2), blocksize=2)
    np.testing.assert_array_equal(back, x)
    check_shapes(DepthToSpace, [x], [DepthToSpace(x, blocksize=2)], blocksize=2)


def test_depthtospace_and_spacetodepth_reject_indivisible_dims():
    refuse(DepthToSpace, [f32(1, 6, 2, 2)], "6 channels are not a multiple of 2", blocksize=2)
    refuse(DepthToSpace, [f32(1, 4, 2, 2)], "unknown mode 'XYZ'", blocksize=2, mode="XYZ")
    refuse(DepthToSpace, [f32(1, 4, 2)], "input has rank 3", blocksize=2)
    refuse(SpaceToDepth, [f32(1, 4, 3, 2)], "is not a multiple of the block size 2", blocksize=2)
    refuse(SpaceToDepth, [f32(1, 4, 2, 2)], "blocksize is 0", blocksize=0)


# Older forms


def test_opset_1_reshape_reads_the_shape_from_an_attribute():
    found = run_word("onnx", "Reshape", [numbers((2, 3, 4))], opset=1, shape=(0, -1), consumed_inputs=(0,))[0]
    assert found.shape == (2, 12)


@pytest.mark.parametrize("opset", [5, 13, 14])
def test_unchanged_reshape_is_that_of_onnx_runtime(opset):
    old_opset("Reshape", opset, [numbers((2, 3, 4)), np.array([0, -1])])


@pytest.mark.parametrize("opset", [1, 9, 11])
def test_old_squeeze_and_unsqueeze_read_axes_from_an_attribute(opset):
    x = numbers((1, 3, 1))
    if opset == 1:
        compare(run_word("onnx", "Squeeze", [x], opset=1, axes=(0,))[0], x[0])
        compare(run_word("onnx", "Unsqueeze", [x], opset=1, axes=(0, 4))[0], x[None, ..., None])
        return
    old_opset("Squeeze", opset, [x])
    old_opset("Squeeze", opset, [x], axes=(0, 2))
    old_opset("Unsqueeze", opset, [x], axes=(0, 4))


def test_older_concat_has_a_default_axis():
    x, y = numbers((2, 3)), numbers((2, 1))
    compare(run_word("onnx", "Concat", [x, y], opset=1)[0], np.concatenate([x, y], 1))
    old_opset("Concat", 7, [x, y], axis=1)


@pytest.mark.parametrize("opset", [2, 11, 12])
def test_old_split_reads_lengths_from_an_attribute(opset):
    x = numbers((6, 2))
    old_opset("Split", opset, [x], outputs=3)
    old_opset("Split", opset, [x], outputs=2, split=(4, 2), axis=0)


@pytest.mark.parametrize("opset", [13, 17])
def test_old_split_derives_num_outputs_from_its_results(opset):
    x = numbers((6, 2))
    old_opset("Split", opset, [x], outputs=3)
    old_opset("Split", opset, [x, np.array([4, 2])], outputs=2)


def test_opset_1_split_accepts_lengths_as_operand_or_attribute():
    x = numbers((6, 2))
    cases: list[Any] = [([x, np.array([4, 2])], {}), ([x], {"split": (4, 2)}), ([x], {"axis": 0, "split": (4, 2)})]
    for operands, attributes in cases:
        first, second = run_word("onnx", "Split", operands, opset=1, outputs=2, **attributes)
        compare(first, x[:4])
        compare(second, x[4:])
    halves = run_word("onnx", "Split", [x], opset=1, outputs=2, axis=1)
    assert [half.shape for half in halves] == [(6, 1), (6, 1)]


def test_opset_1_tile_repeats_along_one_axis():
    x = numbers((2, 3))
    found = run_word("onnx", "Tile", [x, np.array([2]), np.array([1])], opset=1, constants=(1, 2))[0]
    compare(found, np.tile(x, (1, 2)))
    with pytest.raises(UnsupportedError, match="must be constants"):
        run_word("onnx", "Tile", [x, np.array([2]), np.array([1])], opset=1)
    old_opset("Tile", 6, [x, np.array([2, 1])])


@pytest.mark.parametrize("opset", [7, 10])
def test_old_depthtospace_uses_dcr_mode(opset):
    old_opset("DepthToSpace", opset, [numbers((1, 8, 2, 3))], blocksize=2)
    old_opset("SpaceToDepth", opset, [numbers((1, 2, 4, 6))], blocksize=2)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_unchanged_forms_are_those_of_onnx_runtime(opset):
    x = numbers((2, 3, 4))
    old_opset("Transpose", opset, [x], perm=(2, 0, 1))
    old_opset("Flatten", opset, [x], axis=2)
    old_opset("Shape", opset, [x])
    old_opset("Identity", opset, [x])
    if opset >= 8:
        old_opset("Expand", opset, [x, np.array([5, 1, 1, 1])])
