"""StableHLO: text, portable artifacts and files of jax.export, read without MLIR and without JAX.

The containers in `container` give one `Program` of functions and operations. `translate` inlines the functions and
applies the rules of `rules`, which make canonical operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.stablehlo.recognition import ENDINGS, recognizes

if TYPE_CHECKING:
    from graphport.formats.stablehlo.reader import read, read_bytes, versions

__all__ = ["FORMAT", "read", "read_bytes", "recognizes", "versions"]

__getattr__ = first_used(
    __name__, dict.fromkeys(("read", "read_bytes", "versions"), "graphport.formats.stablehlo.reader")
)

FORMAT = Format(
    "stablehlo",
    "StableHLO",
    ENDINGS,
    "",
    Hooks(recognize=recognizes, read=deferred(__name__, "read"), versions=deferred(__name__, "versions")),
)
