"""OpenVINO IR, versions 10 and 11: an `.xml` of layers and a `.bin` of weights.

Mapping of a file to a graph of the dialect `openvino`:

*Layers* are nodes, `Parameter` an input, `Const` a constant, `Result` an output of the graph. A node's op type is
`opsetN.Type`: the first operation set with this version of the operation, and the type in the spelling of IR files
(`opset1.ReLU`, `opset8.SoftMax`), independent of case and set in the file. `operators.txt` lists them all.

*Attributes* are those of that list, with defaults for absent ones. They are numbers, bools, strings (enumerations in
lower case), `DType`s (`dynamic` is `None`, types without tensors are strings), and tuples of them; `exclude-pad` is
named `exclude_pad`, `auto_broadcast` is present only if it is not `numpy`, and its axis only for `pdpd`.

*Operands and results* are in the order of the ports. A value is named by its first tensor name, else by its layer.

*Bodies* are the attributes `body`, `then_body` and `else_body`, with maps between indices (`subgraphs`).

Declared dtypes and shapes of ports are claims. Everything else (ids of layers and ports, `rt_info`, unknown elements,
order) is stored in notes, and an unmodified graph is written back byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.openvino.container.notes import MEAN_VALUES, result_names
from graphport.formats.openvino.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.openvino.container.reader import read, versions
    from graphport.formats.openvino.container.writer import can_stay, least_snr, write

__all__ = ["FORMAT", "MEAN_VALUES", "can_stay", "least_snr", "read", "recognizes", "result_names", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "can_stay": "graphport.formats.openvino.container.writer",
        "least_snr": "graphport.formats.openvino.container.writer",
        "read": "graphport.formats.openvino.container.reader",
        "versions": "graphport.formats.openvino.container.reader",
        "write": "graphport.formats.openvino.container.writer",
    },
)

FORMAT = Format(
    "openvino",
    "OpenVINO IR",
    (".xml",),
    "openvino",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
        can_stay=deferred(__name__, "can_stay"),
        least_snr=deferred(__name__, "least_snr"),
    ),
    choices=("ir_opset", "ir_version", "weights"),
    faithful_choices=("ir_opset", "ir_version", "weights"),
)
