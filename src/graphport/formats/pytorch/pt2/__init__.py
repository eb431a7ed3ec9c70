"""Exported programs of PyTorch (`.pt2`, `torch.export.save`), read and written without torch.

The op type of a dialect node is the target of the call, for example `pytorch.aten.add.Tensor`. Tensor arguments are
operands, other arguments are attributes of equal names, and the attribute `$` is the tuple of the operands' parameter
names. Parameters, buffers and constants are constants with their qualified names; inputs and outputs follow the
program's signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.pytorch.pt2.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.pytorch.pt2.exporting import exported
    from graphport.formats.pytorch.pt2.reader import read, read_bytes, versions
    from graphport.formats.pytorch.pt2.writer import write

__all__ = ["FORMAT", "exported", "read", "read_bytes", "recognizes", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "exported": "graphport.formats.pytorch.pt2.exporting",
        "read": "graphport.formats.pytorch.pt2.reader",
        "read_bytes": "graphport.formats.pytorch.pt2.reader",
        "versions": "graphport.formats.pytorch.pt2.reader",
        "write": "graphport.formats.pytorch.pt2.writer",
    },
)

FORMAT = Format(
    "pt2",
    "PyTorch exported program",
    (".pt2",),
    "pytorch",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
    ),
    options=("program", "states"),
    choices=("allow_custom", "code", "qdq"),
    preparations=("qdq",),
    packed_in=("zip",),
    tells=True,
)
