"""TorchScript files (`.pt`, `.torchscript`, `.ptl`, `torch.jit.save`), read without torch.

The code of the archive is partially evaluated: static scalars, strings and containers are computed, and operators on
tensors are nodes of a dialect graph in `pytorch`, the dialect of `.pt2` files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.pytorch.torchscript.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.pytorch.torchscript.reader import read, read_bytes, versions

__all__ = ["FORMAT", "read", "read_bytes", "recognizes", "versions"]

__getattr__ = first_used(
    __name__, dict.fromkeys(("read", "read_bytes", "versions"), "graphport.formats.pytorch.torchscript.reader")
)

FORMAT = Format(
    "torchscript",
    "TorchScript",
    (".pt", ".torchscript", ".ptl", ".pth"),
    "pytorch",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        contents=deferred("graphport.formats.pytorch.torchscript.contents", "contents"),
    ),
    options=("shapes", "states"),
    packed_in=("zip",),
)
