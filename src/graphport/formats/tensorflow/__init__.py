"""TensorFlow: SavedModel folders and frozen GraphDef files (`.pb`), read without TensorFlow.

A raw graph has nodes in the dialect `tensorflow` with the names and attributes of TensorFlow's operators
(`tensorflow.Conv2D`). Functions are inlined, variables are constants, loops and branches are `Loop` and `If`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.tensorflow.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.tensorflow.container.reader import read, versions

__all__ = ["FORMAT", "read", "recognizes", "versions"]

__getattr__ = first_used(__name__, dict.fromkeys(("read", "versions"), "graphport.formats.tensorflow.container.reader"))

FORMAT = Format(
    "tensorflow",
    "TensorFlow",
    (".pb", ".savedmodel"),
    "tensorflow",
    Hooks(recognize=recognizes, read=deferred(__name__, "read"), versions=deferred(__name__, "versions")),
    ("program", "states"),
)
