from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage, storage_of
from graphport.formats.onnx.container.sparse import SparseStorage, misplaced


def sparse(dense: np.ndarray[Any, Any], *, flat: bool) -> SparseStorage:
    indices = np.flatnonzero(dense) if flat else np.argwhere(dense)
    return SparseStorage(storage_of(dense[dense != 0]), storage_of(indices, DType.INT64), dense.shape)


@given(st.lists(st.sampled_from([0, 0, 0, 1, -2, 3]), min_size=24, max_size=24), st.booleans())
def test_sparse_tensor_restores_the_dense_elements(entries: list[int], flat: bool) -> None:
    dense = np.array(entries, np.float32).reshape(2, 3, 4)
    storage = sparse(dense, flat=flat)
    assert misplaced(storage.indices, storage.shape) is None
    np.testing.assert_array_equal(storage.numpy(), dense)
    assert b"".join(bytes(chunk) for chunk in storage.chunks(32)) == dense.tobytes()


def test_narrow_elements_are_packed_across_pieces() -> None:
    values = ArrayStorage(np.array([1, -2, 7], DType.INT4.numpy), DType.INT4)
    storage = SparseStorage(values, storage_of(np.array([0, 9, 40])), (41,))
    packed = b"".join(bytes(chunk) for chunk in storage.chunks(8))
    assert len(packed) == storage.nbytes == 21
    assert (packed[0], packed[4], packed[20]) == (0x01, 0xE0, 0x07)


@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        pytest.param([0, 12], (3, 4), id="behind the end"),
        pytest.param([-1, 2], (3, 4), id="before the start"),
        pytest.param([2, 1], (3, 4), id="out of order"),
        pytest.param([1, 1], (3, 4), id="twice"),
        pytest.param([[0, 4]], (3, 4), id="behind an axis"),
        pytest.param([[1, 0], [0, 3]], (3, 4), id="rows out of order"),
    ],
)
def test_invalid_sparse_indices_are_detected(indices: list[Any], shape: tuple[int, ...]) -> None:
    assert misplaced(storage_of(np.array(indices, np.int64)), shape) is not None
