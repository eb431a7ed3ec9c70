"""Complex numbers of TFLite, of which somebody reads a part: the operator that makes them is asked for that part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ir.graph import Node
from graphport.ops.dialects.tflite.signal_spectra import IMAG, MAGNITUDE, REAL

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_DIALECT, _SPECTRUM = "tflite", "RFFT2D"
_PARTS = {"REAL": REAL, "IMAG": IMAG, "COMPLEX_ABS": MAGNITUDE}


def part_spectra(graph: Graph) -> None:
    """Let what reads a part of a spectrum be the spectrum of which it is a part.

    Before  z = RFFT2D(x, lengths);  y = REAL(z)
    After   y = RFFT2D(x, lengths, part="real")

    Leaves alone: spectra that are a result, or that something else reads.
    """
    for node in list(graph):
        if node.dialect != _DIALECT or node.word != _SPECTRUM or node.output.is_output:
            continue
        readers = list(node.output.users)
        if not readers or any(each.dialect != _DIALECT or each.word not in _PARTS for each in readers):
            continue
        for reader in readers:
            told = {"part": _PARTS[reader.word], "types": (DType.FLOAT32,)}
            twin = Node(
                _SPECTRUM, list(node.inputs), [], told, dialect=_DIALECT, name=reader.name, origin=reader.unasked_origin
            )
            graph.insert_before(reader, twin)
            twin.take_outputs(reader)
            graph.remove(reader)
        graph.remove(node)
