"""Complex tensors of exported programs: pairs of real numbers in a last axis, as ONNX computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion.dialects.pnnx import pair_value
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.dialects.pytorch.overloads import DIALECT
from graphport.ops.dialects.torch_functions import COMPLEX

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

_KINDS = frozenset({DType.COMPLEX64, DType.COMPLEX128})


def pair(graph: Graph) -> None:
    """Make every complex tensor a real one with a last axis of two, if all that read or make it have a rule for it."""
    known = {value for value in graph.values() if _is_complex(value)}
    if not known or any(value.is_output or value.is_input for value in known):
        return
    nodes = [node for node in graph if known & {*node.operands, *node.results}]
    if any(registry.lowering(DIALECT, f"{COMPLEX}{node.word}") is None for node in nodes):
        return
    for node in nodes:
        node.word = f"{COMPLEX}{node.word}"
        node.set_attribute(COMPLEX, tuple(value in known for value in node.inputs))
    for value in known:
        pair_value(value)


def _is_complex(value: Value) -> bool:
    return isinstance(value.fact, TensorFact) and value.fact.dtype in _KINDS
