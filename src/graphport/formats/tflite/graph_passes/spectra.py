"""Replace a complex spectrum with one used part (real, imaginary, magnitude) by that part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.signal_spectra import IMAG, MAGNITUDE, REAL
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_DIALECT, _SPECTRUM = "tflite", "RFFT2D"
_DATA_MOVEMENTS = frozenset(("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "GATHER"))
"""Operators that only select or move elements of their first operand."""
_SPECTRUM_PARTS = {"REAL": REAL, "IMAG": IMAG, "COMPLEX_ABS": MAGNITUDE}


def part_spectra(graph: Graph) -> None:
    """Compute the used part of a spectrum directly.

    Before  z = RFFT2D(x, lengths);  y = REAL(z)
    After   y = RFFT2D(x, lengths, part="real")

    Data movements of the complex elements are applied to the parts. Does not apply to spectra that are graph outputs or
    have other consumers.
    """
    for node in reversed(list(graph)):
        if node.dialect == _DIALECT and node.op_type in _DATA_MOVEMENTS and _is_parted(node):
            _move_parts(graph, node)
    for node in list(graph):
        if node.dialect != _DIALECT or node.op_type != _SPECTRUM or node.output.is_output:
            continue
        readers = list(node.output.users)
        if not readers or any(each.dialect != _DIALECT or each.op_type not in _SPECTRUM_PARTS for each in readers):
            continue
        for reader in readers:
            attributes = {"part": _SPECTRUM_PARTS[reader.op_type], "types": (DType.FLOAT32,)}
            twin = Node(
                _SPECTRUM,
                list(node.inputs),
                [],
                attributes,
                dialect=_DIALECT,
                name=reader.name,
                origin=reader.unasked_origin,
            )
            graph.insert_before(reader, twin)
            twin.take_outputs(reader)
            graph.remove(reader)
        graph.remove(node)


def _is_parted(node: Node) -> bool:
    """Whether all consumers of moved complex elements read parts."""
    source = node.operand(0)
    if len(node.results) != 1 or node.output.is_output or not node.output.uses or source is None:
        return False
    fact = source.fact
    is_complex = isinstance(fact, TensorFact) and fact.dtype in (DType.COMPLEX64, DType.COMPLEX128)
    return is_complex and all(
        user.dialect == _DIALECT and user.op_type in _SPECTRUM_PARTS and len(user.results) == 1
        for user in node.output.users
    )


def _move_parts(graph: Graph, node: Node) -> None:
    source = node.operands[0]
    fact = source.fact
    for reader in list(node.output.users):
        shape = fact.shape if isinstance(fact, TensorFact) else None
        part = Value(graph.fresh(f"{reader.output.name}_part"), TensorFact(DType.FLOAT32, shape))
        taken = Node(reader.op_type, [source], [part], dict(reader.attributes), dialect=_DIALECT, origin=reader.origin)
        attributes = {**node.attributes, **({"types": (DType.FLOAT32,)} if "types" in node.attributes else {})}
        moved = Node(node.op_type, [part, *node.inputs[1:]], [], attributes, dialect=_DIALECT, origin=node.origin)
        graph.insert_before(reader, taken)
        graph.insert_before(reader, moved)
        moved.take_outputs(reader)
        graph.remove(reader)
    graph.remove(node)
