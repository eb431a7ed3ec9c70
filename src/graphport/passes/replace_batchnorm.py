"""Normalizations that nothing else took, as operators that every runtime quantizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node, Value
from graphport.passes.affine import of_batchnorm
from graphport.passes.journal import Journal, Left, apply
from graphport.passes.substitution import add_constant, graph_of, rounded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from graphport.ir.graph import Graph

_CONVOLVED = frozenset((DType.FLOAT32, DType.FLOAT16))
"""Element types in which runtimes convolve; ONNX Runtime has no other on the processor."""


def batchnorm_to_conv(graph: Graph, journal: Journal) -> None:
    """Make a lone `BatchNormalization` of rank 3 to 5 a depthwise convolution.

    Before  y = BatchNormalization(x, gamma, beta, mean, var)        x [N, C, *d]
    After   y = Conv(x, k, s, group=C)        k [C, 1, *1],  k = gamma / sqrt(var + epsilon),  s = beta - mean * k

    Leaves alone: other ranks, unknown ones, element types that runtimes do not convolve, training, numbers that are not
    known or not finite. Keeps values up to rounding.
    """
    apply(graph, journal, _to_conv, {"BatchNormalization"})


def batchnorm_to_scale(graph: Graph, journal: Journal) -> None:
    """Make a `BatchNormalization` that is still there a product and a sum.

    Before  y = BatchNormalization(x, gamma, beta, mean, var)        x [N, C, *d]
    After   y = Add(Mul(x, k), s)        k and s [C, *1],  k = gamma / sqrt(var + epsilon),  s = beta - mean * k

    Leaves alone: an unknown rank, training, numbers that are not known or not finite. Keeps values up to rounding.
    """
    apply(graph, journal, _to_scale, {"BatchNormalization"})


def _to_conv(node: Node) -> str | None:
    rank, dtype = _kind(node)
    if not 3 <= rank <= 5 or dtype not in _CONVOLVED:
        return None
    affine = of_batchnorm(node)
    ones = [1] * (rank - 2)
    weight = _constant(node, affine.factor, (-1, 1, *ones), dtype, "weight")
    bias = _constant(node, affine.summand, (-1,), dtype, "bias")
    attributes = {"group": _length(affine.factor), "kernel_shape": tuple(ones)}
    conv = Node("Conv", [node.operand(0), weight, bias], (), attributes, name=node.name, origin=node.origin)
    _put(node, conv)
    return "is a depthwise Conv"


def _to_scale(node: Node) -> str:
    rank, dtype = _kind(node)
    affine = of_batchnorm(node)
    along = (-1, *[1] * (rank - 2)) if rank > 1 else (-1,)
    factor = _constant(node, affine.factor, along, dtype, "weight")
    summand = _constant(node, affine.summand, along, dtype, "bias")
    graph = graph_of(node)
    scaled = Value(graph.fresh(f"{node.output.name}.scaled"), node.output.fact)
    graph.insert_before(node, Node("Mul", [node.operand(0), factor], [scaled], origin=node.origin))
    _put(node, Node("Add", [scaled, summand], (), name=node.name, origin=node.origin))
    return "is a Mul and an Add"


def _kind(node: Node) -> tuple[int, DType]:
    value = node.operand(0)
    fact = None if value is None else value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        raise Left("the rank of its operand is not known")
    if fact.dtype is None:
        raise Left("the element type of its operand is not known")
    return len(fact.shape), fact.dtype


def _length(array: NDArray[np.float64] | None) -> int:
    return 0 if array is None else array.size


def _constant(node: Node, array: NDArray[np.float64] | None, shape: tuple[int, ...], dtype: DType, what: str) -> Value:
    storage = None if array is None else rounded(array.reshape(shape), dtype)
    if storage is None:
        raise Left(f"numbers would be too large for {dtype}")
    return add_constant(graph_of(node), storage, f"{node.name or node.output.name}.{what}")


def _put(old: Node, new: Node) -> None:
    """Let `new` compute the result of `old`, which goes."""
    for value in [value for value in old.results if value.index]:
        old.drop_output(value.index)
    graph = graph_of(old)
    graph.insert_before(old, new)
    new.take_outputs(old)
    graph.remove(old)
