"""Caches of a fixed length against ONNX Runtime on random shapes and places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphport.ops.definitions.attention.cache import TensorScatter
from tests.ops.oracle import check_operator


@given(
    st.integers(0, 999), st.integers(1, 3), st.integers(2, 6), st.booleans(), st.sampled_from(["linear", "circular"])
)
def test_caches_are_those_of_onnx_runtime(seed, batch, capacity, placed, mode):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, capacity + 1))
    past = rng.normal(size=(batch, 2, capacity, 3)).astype(np.float32)
    update = rng.normal(size=(batch, 2, count, 3)).astype(np.float32)
    places = rng.integers(0, capacity if mode == "circular" else capacity - count + 1, batch) if placed else None
    check_operator(TensorScatter, [past, update, places], mode=mode)
