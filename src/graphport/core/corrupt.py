"""What NumPy and the readers of archives raise over `.npy` and zip files that are not what they say."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib

CORRUPT = (
    ValueError,
    TypeError,  # a header of other things than numbers
    EOFError,
    KeyError,  # an entry of another name than the directory says
    OSError,  # a place before the beginning
    RuntimeError,  # encrypted, or compressed in a way that is not known
    SyntaxError,
    MemoryError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
