"""String tensors as bytes: the length of each element as int64, negative for byte strings, then all elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import storage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.storage import Storage


def packed(storage: Storage) -> bytes:
    """Encode the elements of a string tensor."""
    elements: list[Any] = storage.numpy().reshape(-1).tolist()
    data = [
        element if isinstance(element, bytes) else str(element).encode("utf-8", "surrogatepass") for element in elements
    ]
    # The complement of the length is negative for empty byte strings too.
    lengths = [~len(d) if isinstance(e, bytes) else len(d) for e, d in zip(elements, data, strict=True)]
    return np.array(lengths, "<i8").tobytes() + b"".join(data)


def unpacked(data: bytes, shape: Sequence[int], count: int) -> Storage | None:
    """Decode a string tensor of `count` elements; `None` if `data` does not contain them."""
    if len(data) < 8 * count:
        return None
    lengths: list[int] = np.frombuffer(data[: 8 * count], "<i8").tolist()
    elements = np.empty(count, object)
    position = 8 * count
    for index, length in enumerate(lengths):
        stop = position + (length if length >= 0 else ~length)
        if stop > len(data):
            return None
        element = data[position:stop]
        try:
            elements[index] = element if length < 0 else element.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return None
        position = stop
    return storage_of(elements.reshape(tuple(shape)), DType.STRING) if position == len(data) else None
