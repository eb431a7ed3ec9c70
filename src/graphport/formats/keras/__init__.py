"""Keras: `.keras` archives and `.h5` files of Keras 2 and Keras 3, read without TensorFlow and Keras.

A raw graph has nodes in the dialect `keras`: the op type is the class of a layer (`keras.Conv2D`), or an operation of
Keras 3 (`keras.ops.Add`) or TensorFlow (`keras.tf.math.add`). Attributes are the options of the layer's configuration;
the attribute `operands` names the role of each operand. Nothing of a file is executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.keras.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.keras.container.reader import read, versions

__all__ = ["FORMAT", "read", "recognizes", "versions"]

__getattr__ = first_used(__name__, dict.fromkeys(("read", "versions"), "graphport.formats.keras.container.reader"))

FORMAT = Format(
    "keras",
    "Keras",
    (".keras", ".h5", ".hdf5"),
    "keras",
    Hooks(recognize=recognizes, read=deferred(__name__, "read"), versions=deferred(__name__, "versions")),
    packed_in=("zip",),
)
