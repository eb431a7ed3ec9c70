"""Equality of the elements of two storages."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.element_digest import have_equal_elements
from graphport.core.storage import ArrayStorage, Storage


class Blocks(Storage):
    """Floats in blocks of any size."""

    def __init__(self, array, size: int) -> None:
        super().__init__(DType.FLOAT32, array.shape)
        self.array, self.size = array, size

    def numpy(self):
        return self.array

    def chunks(self, limit: int = 0):
        content = self.array.tobytes()
        buffer = bytearray(self.size)
        for start in range(0, len(content), self.size):
            piece = content[start : start + self.size]
            buffer[: len(piece)] = piece
            yield memoryview(buffer)[: len(piece)]


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_size_of_blocks_does_not_matter(size):
    array = np.arange(100, dtype=np.float32)
    other = array.copy()
    other[-1] = 0
    assert have_equal_elements(ArrayStorage(array), Blocks(array, size))
    assert not have_equal_elements(ArrayStorage(array), Blocks(other, size))
    assert not have_equal_elements(Blocks(other, size), ArrayStorage(array))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        pytest.param(np.zeros((0, 3), np.float32), np.zeros((2, 0), np.float32), True, id="no elements"),
        pytest.param(np.zeros(3, np.float32), np.zeros(3, np.int32), False, id="other type, same bytes"),
        pytest.param(np.zeros(3, np.float32), np.zeros(4, np.float32), False, id="another size"),
        pytest.param(np.zeros((2, 3), np.float32), np.zeros(6, np.float32), True, id="another shape"),
        pytest.param(np.array(["a", "b"], object), np.array(["a", "b"], object), True, id="strings"),
        pytest.param(np.array(["a", "b"], object), np.array(["a", "c"], object), False, id="other strings"),
    ],
)
def test_elements_are_compared_with_their_type(x, y, expected):
    assert have_equal_elements(ArrayStorage(x), ArrayStorage(y)) is expected
