"""PNNX: the text and the weight archive that pnnx writes for PyTorch models.

The op type of a dialect node is `pnnx.nn.Conv2d` or `pnnx.torch.cat`; parameters are attributes of equal names, weights
are attributes such as `@weight`, and `$` is the tuple of operand names if there are several operands. Inputs and
outputs have no node; `pnnx.Attribute` is a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.pnnx.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.pnnx.container.reader import read, versions
    from graphport.formats.pnnx.container.writer import write

__all__ = ["FORMAT", "read", "recognizes", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "read": "graphport.formats.pnnx.container.reader",
        "versions": "graphport.formats.pnnx.container.reader",
        "write": "graphport.formats.pnnx.container.writer",
    },
)

FORMAT = Format(
    "pnnx",
    "PNNX",
    (".pnnx.param",),
    "pnnx",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
    ),
    options=("tolerant",),
    choices=("code",),
)
