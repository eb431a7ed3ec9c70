"""Digests of the elements of tensors, to find equal constants without comparing each pair."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from graphport.core.storage import Storage


def digest_elements(storage: Storage) -> bytes:
    """Return a digest of 32 bytes of the elements of `storage`, without dtype and shape."""
    digest = blake2b(digest_size=32)
    if storage.dtype is DType.STRING:
        digest.update(repr(storage.numpy().reshape(-1).tolist()).encode())
    else:
        for chunk in storage.chunks():
            digest.update(chunk)
    return digest.digest()
