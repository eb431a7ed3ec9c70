"""Shifted bits, and casts to another tensor's type, against ONNX Runtime on random numbers and shapes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphport.ops.definitions.arithmetic import BitShift, CastLike
from tests.ops.oracle import check_operator


@given(
    st.integers(0, 999),
    st.sampled_from([np.uint8, np.uint32, np.uint64]),
    st.sampled_from([((2, 3), (2, 3)), ((2, 3), (3,)), ((4,), ())]),
    st.sampled_from(["LEFT", "RIGHT"]),
)
def test_shifts_are_those_of_onnx_runtime(seed, dtype, shapes, direction):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, np.iinfo(dtype).max, shapes[0], dtype=dtype, endpoint=True)
    # By as many bits as there are, or more, C++ may do anything.
    amount = np.asarray(rng.integers(0, np.iinfo(dtype).bits, shapes[1])).astype(dtype)
    check_operator(BitShift, [x, amount], direction=direction)


NUMBERS = [np.float32, np.float64, np.float16, np.int32, np.int64, np.int8, np.bool_]


@given(st.integers(0, 999), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.lists(st.integers(1, 3), max_size=3))
def test_casts_to_the_type_of_another_are_those_of_onnx_runtime(seed, source, target, shape):
    x = np.asarray(np.random.default_rng(seed).integers(-9, 9, shape)).astype(source)
    check_operator(CastLike, [x, np.zeros(2, target)], opset=19)
