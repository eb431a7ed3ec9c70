"""TFLite (LiteRT): operators and tensors in one FlatBuffer.

The op type of a dialect node is `tflite.CONV_2D`; its attributes are the options of the schema, by name. Quantization
parameters are attributes of the operators that use a tensor, `quantized` (operands) and `quantized_results`: element
type, axis, scales and zero points. A custom operator has the op type `custom.NAME` and an attribute with its bytes.
Bodies of control flow are graphs whose inputs are all values that they use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.tflite.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.tflite.container.delegates import kernels
    from graphport.formats.tflite.container.reader import read, versions
    from graphport.formats.tflite.container.verbatim_copy import copy_unchanged, mark_again
    from graphport.formats.tflite.container.writer import write

__all__ = ["FORMAT", "copy_unchanged", "kernels", "mark_again", "read", "recognizes", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "copy_unchanged": "graphport.formats.tflite.container.verbatim_copy",
        "kernels": "graphport.formats.tflite.container.delegates",
        "mark_again": "graphport.formats.tflite.container.verbatim_copy",
        "read": "graphport.formats.tflite.container.reader",
        "versions": "graphport.formats.tflite.container.reader",
        "write": "graphport.formats.tflite.container.writer",
    },
)

FORMAT = Format(
    "tflite",
    "TFLite",
    (".tflite",),
    "tflite",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
        copy_unchanged=deferred(__name__, "copy_unchanged"),
        kernels=deferred(__name__, "kernels"),
        mark_again=deferred(__name__, "mark_again"),
    ),
    options=("program",),
    streamed=".tflite",
    has_metadata=True,
    tells=True,
)
