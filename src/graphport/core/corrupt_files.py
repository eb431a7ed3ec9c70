"""Exceptions that NumPy and archive readers raise on corrupt `.npy` and zip files."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib

CORRUPT = (
    ValueError,
    TypeError,  # header with a non-numeric dtype
    EOFError,
    KeyError,  # member name that differs from the directory
    OSError,  # a place before the beginning
    RuntimeError,  # encrypted, or compressed in a way that is not known
    SyntaxError,
    MemoryError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
