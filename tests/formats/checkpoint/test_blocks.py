"""Block formats of GGUF against the values of the package gguf, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphport.core.storage import Bytes
from graphport.formats.checkpoint.container.blocks import FORMATS, BlockStorage

STORED = np.load(Path(__file__).parent / "models" / "blocks.npz")
KINDS = [kind for kind in FORMATS if f"blocks_{kind}" in STORED]


def test_all_formats_but_float64_have_stored_values():
    assert {FORMATS[kind].name for kind in set(FORMATS) - set(KINDS)} == {"F64"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: FORMATS[kind].name)
def test_values_whole_and_in_pieces(kind):
    blocks, values = STORED[f"blocks_{kind}"], STORED[f"values_{kind}"].reshape(3, -1)
    storage = BlockStorage(Bytes(blocks.tobytes()), 0, FORMATS[kind], values.shape)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(storage.numpy(), values)
        pieces = b"".join(bytes(piece) for piece in storage.chunks(limit=4))
        np.testing.assert_array_equal(np.frombuffer(pieces, np.float32).reshape(values.shape), values)
