"""Convert a quantized graph to integer inputs, outputs and operators, for integer-only devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import TensorFact
from graphport.quantization.placement import data_operands, is_float32

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_FUSED = ("Relu", "Clip")
_EDGES = ("QuantizeLinear", "DequantizeLinear")


def full_integer(graph: Graph) -> None:
    """Replace inputs and outputs of `graph` by their integer forms.

    Before  q = QuantizeLinear(x, s, z);  y = DequantizeLinear(p, t, u);  return y
    After   input x is q;  return p, with the name of y

    Raises:
        DiagnosticError: QUANT0030 for each node that computes on floats.
    """
    findings = [
        Diagnostic(
            "QUANT0030",
            f"{node.op} {node.name or node.results[0].name!r} computes on floats: {reason}",
            node.origin,
            "remove 'full_integer', or change the model at this node",
        )
        for node in graph
        if (reason := _real_reason(node)) is not None
    ]
    findings += [
        Diagnostic("QUANT0030", f"the output {value.name!r} is float", None, "remove 'full_integer'")
        for value in graph.outputs
        if is_float32(value) and (value.producer is None or value.producer.op != "DequantizeLinear")
    ]
    if findings:
        raise DiagnosticError(*findings)
    for value in graph.inputs:
        if is_float32(value):
            _take_integers(graph, value)
    for index, value in enumerate(graph.outputs):
        if is_float32(value) and value.producer is not None:
            _give_integers(graph, index, value)


def _real_reason(node: Node) -> str | None:
    if node.op in _EDGES or not any(is_float32(value) for value in node.results):
        return None
    for value in data_operands(node):
        maker = value.producer
        if is_float32(value) and not value.is_constant and not _is_from_integers(maker):
            return f"it reads {value.name!r} before its quantization"
    for value in node.results:
        if not _is_rounded(value):
            return f"its result {value.name!r} is not quantized"
    return None


def _is_from_integers(maker: Node | None) -> bool:
    return maker is not None and (
        maker.op == "DequantizeLinear" or (maker.op in _FUSED and len(maker.output.uses) == 1) or _is_fused_into(maker)
    )


def _is_fused_into(maker: Node) -> bool:
    """Whether all consumers of the result of `maker` are nodes that kernels fuse into it."""
    users = maker.output.users if len(maker.results) == 1 else []
    return bool(users) and all(user.op in _FUSED for user in users) and not maker.output.is_output


def _is_rounded(value: Value) -> bool:
    if value.is_output or not value.users:
        return False
    return all(user.op == "QuantizeLinear" or (user.op in _FUSED and len(value.users) == 1) for user in value.users)


def _take_integers(graph: Graph, value: Value) -> None:
    readers = [user for user in value.users if user.op == "QuantizeLinear"]
    if not readers or len(readers) < len(value.users):
        message = f"the input {value.name!r} is used before it is quantized"
        raise DiagnosticError(Diagnostic("QUANT0030", message, None, "remove 'full_integer'"))
    first, *others = readers
    if any(other.inputs[1:] != first.inputs[1:] for other in others):
        message = f"the input {value.name!r} is quantized with several parameters"
        raise DiagnosticError(Diagnostic("QUANT0030", message, None, "remove 'full_integer'"))
    fact = first.output.fact
    dtype = fact.dtype if isinstance(fact, TensorFact) else None
    shape = value.shape
    for reader in readers:
        reader.output.replace_uses(value)
        graph.remove(reader)
    value.fact = TensorFact(dtype, shape)


def _give_integers(graph: Graph, index: int, value: Value) -> None:
    maker = value.producer
    if maker is None:
        return
    codes, name = maker.operands[0], value.name
    graph.set_output(index, codes)
    if codes.is_input or graph.outputs.count(codes) > 1:
        return
    graph.rename(value, graph.fresh(f"{name}_real"))
    graph.rename(codes, name)
    if not value.uses:
        graph.remove(maker)
