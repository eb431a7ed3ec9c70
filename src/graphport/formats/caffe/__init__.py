"""Caffe: network texts (`.prototxt`) of every version, and weight files (`.caffemodel`).

A raw graph has op types such as `caffe.Convolution`; other content of the file is in notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.caffe.container.recognition import recognizes
from graphport.formats.contract import Format, Hooks, deferred

if TYPE_CHECKING:
    from graphport.formats.caffe.container.reader import read, versions
    from graphport.formats.caffe.container.writer import write

__all__ = ["FORMAT", "read", "recognizes", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "read": "graphport.formats.caffe.container.reader",
        "versions": "graphport.formats.caffe.container.reader",
        "write": "graphport.formats.caffe.container.writer",
    },
)

FORMAT = Format(
    "caffe",
    "Caffe",
    (".prototxt", ".caffemodel"),
    "caffe",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
    ),
    has_one_width=True,
)
