"""OpenVINO IR, versions 10 and 11: an `.xml` of layers and a `.bin` of weights.

How a file becomes a graph of the dialect `openvino`:

*Layers* are nodes, `Parameter` an input, `Const` a constant, `Result` an output of the graph. A node's word is
`opsetN.Type`: the operation set that has this version of the operation first, and the type as IR files spell it
(`opset1.ReLU`, `opset8.SoftMax`), whatever case and set the file gives. `operators.txt` lists them all.

*Attributes* are those of that list, complete: what the file leaves out has its default. They are numbers, bools, texts
(enumerations in lower case), `DType`s (`dynamic` is `None`, types that no tensor has are texts), and tuples of these;
`exclude-pad` is called `exclude_pad`, `auto_broadcast` is there only if it is not `numpy`, and its axis only if it is
`pdpd`.

*Operands and results* stand in the order of the ports. A value has its first tensor name, else the layer's name.

*Bodies* are the attributes `body`, `then_body` and `else_body`, with maps from positions to positions (`subgraphs`).

What ports declare of types and shapes are claims. Everything else (numbers of layers and ports, `rt_info`, unknown
elements, order) is in notes, and a graph that nobody has changed is written back byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy import first_used
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
