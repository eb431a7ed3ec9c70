"""Tensors of a `.bin` file: all are stored, and equal ones only once."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.storage import ArrayStorage
from graphport.formats.openvino.container.blobs import Blobs

LENGTHS = st.sampled_from([0, 1, 1023, 1024, 1025, 3000])


@st.composite
def tensors(draw):
    """Bytes that begin alike: equal ones, and others that differ at one place, the last one even."""
    found = [np.full(draw(LENGTHS), draw(st.integers(0, 1)), np.uint8) for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(0, 4))):
        array = draw(st.sampled_from(found)).copy()
        if array.size and draw(st.booleans()):
            array[draw(st.sampled_from([0, array.size - 1]))] ^= 1
        found.append(array)
    return draw(st.permutations(found))


@given(tensors())
def test_each_tensor_is_there_and_what_is_the_same_is_there_once(arrays):
    file = io.BytesIO()
    blobs = Blobs(file)
    storages = [ArrayStorage(array) for array in arrays]
    pieces = [blobs.append(storage) for storage in storages]
    blobs.finish()
    for array, piece in zip(arrays, pieces, strict=True):
        assert file.getvalue()[piece.offset : piece.offset + piece.size] == array.tobytes()
    # OpenVINO crashes on an empty file, so that one byte is written if no tensor has elements.
    assert len(file.getvalue()) == max(sum(map(len, {array.tobytes() for array in arrays})), 1)
