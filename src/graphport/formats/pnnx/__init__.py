"""PNNX: the text and the archive of weights that pnnx makes of PyTorch models.

A raw graph speaks `pnnx.nn.Conv2d`, `pnnx.torch.cat`: a type of PNNX is the word, its parameters are attributes of the
same names, its weights attributes called `@weight`, and `$` is the tuple of the names under which operands are given,
where there are several. Inputs and outputs have no node; `pnnx.Attribute` is a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy import first_used
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
