"""ncnn: the text or binary list of layers, and the file of their weights.

The op type of a dialect node is `ncnn.Convolution`; parameters of the layer are attributes named by number (`"0"`,
`"11"`), its weights attributes `"@0"`, `"@1"`, … in loading order. `Input` layers are graph inputs; blobs without
consumers are graph outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.ncnn.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.ncnn.container.calibration_table import Scales, read_table, write_table
    from graphport.formats.ncnn.container.reader import read, versions
    from graphport.formats.ncnn.container.writer import least_snr, write

__all__ = ["FORMAT", "Scales", "least_snr", "read", "read_table", "recognizes", "versions", "write", "write_table"]

__getattr__ = first_used(
    __name__,
    {
        "Scales": "graphport.formats.ncnn.container.calibration_table",
        "least_snr": "graphport.formats.ncnn.container.writer",
        "read": "graphport.formats.ncnn.container.reader",
        "read_table": "graphport.formats.ncnn.container.calibration_table",
        "versions": "graphport.formats.ncnn.container.reader",
        "write": "graphport.formats.ncnn.container.writer",
        "write_table": "graphport.formats.ncnn.container.calibration_table",
    },
)

FORMAT = Format(
    "ncnn",
    "ncnn",
    (".ncnn.param", ".param", ".param.bin"),
    "ncnn",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
        least_snr=deferred(__name__, "least_snr"),
    ),
    choices=("batch", "optimize", "precision", "weights"),
    faithful_choices=("precision", "weights"),
    preparations=("batch", "optimize"),
    has_one_width=True,
)
