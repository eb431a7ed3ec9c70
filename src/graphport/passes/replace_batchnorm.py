"""Replace BatchNormalization that could not be folded by operators that all runtimes quantize."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node, Value
from graphport.passes.affine import of_batchnorm
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.substitution import add_constant, graph_of, rounded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from graphport.ir.graph import Graph

_CONVOLVED = frozenset((DType.FLOAT32, DType.FLOAT16))
"""Element types for which runtimes have convolution kernels; ONNX Runtime has no others on the CPU."""


def batchnorm_to_conv(graph: Graph, journal: Journal) -> None:
    """Replace a `BatchNormalization` of rank 3 to 5 by a depthwise convolution.

    Before  y = BatchNormalization(x, gamma, beta, mean, var)        x [N, C, *d]
    After   y = Conv(x, k, s, group=C)        k [C, 1, *1],  k = gamma / sqrt(var + epsilon),  s = beta - mean * k

    Does not apply to other or unknown ranks, to types without convolution kernels, in training, or to parameters that
    are not constant or not finite. Preserves values up to rounding.
    """
    apply(graph, journal, _to_conv, {"BatchNormalization"})


def batchnorm_to_scale(graph: Graph, journal: Journal) -> None:
    """Replace a remaining `BatchNormalization` by a product and a sum.

    Before  y = BatchNormalization(x, gamma, beta, mean, var)        x [N, C, *d]
    After   y = Add(Mul(x, k), s)        k and s [C, *1],  k = gamma / sqrt(var + epsilon),  s = beta - mean * k

    Does not apply to an unknown rank, in training, or to parameters that are not constant or not finite. Preserves
    values up to rounding.
    """
    apply(graph, journal, _to_scale, {"BatchNormalization"})


def _to_conv(node: Node) -> str | None:
    rank, dtype = _rank_and_dtype(node)
    if not 3 <= rank <= 5 or dtype not in _CONVOLVED:
        return None
    affine = of_batchnorm(node)
    ones = [1] * (rank - 2)
    weight = _constant(node, affine.factor, (-1, 1, *ones), dtype, "weight")
    bias = _constant(node, affine.summand, (-1,), dtype, "bias")
    attributes = {"group": _length(affine.factor), "kernel_shape": tuple(ones)}
    conv = Node("Conv", [node.operand(0), weight, bias], (), attributes, name=node.name, origin=node.origin)
    _replace(node, conv)
    return "is a depthwise Conv"


def _to_scale(node: Node) -> str:
    rank, dtype = _rank_and_dtype(node)
    affine = of_batchnorm(node)
    along = (-1, *[1] * (rank - 2)) if rank > 1 else (-1,)
    factor = _constant(node, affine.factor, along, dtype, "weight")
    summand = _constant(node, affine.summand, along, dtype, "bias")
    graph = graph_of(node)
    scaled = Value(graph.fresh(f"{node.output.name}.scaled"), node.output.fact)
    graph.insert_before(node, Node("Mul", [node.operand(0), factor], [scaled], origin=node.origin))
    _replace(node, Node("Add", [scaled, summand], (), name=node.name, origin=node.origin))
    return "is a Mul and an Add"


def _rank_and_dtype(node: Node) -> tuple[int, DType]:
    value = node.operand(0)
    fact = None if value is None else value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        raise NotApplicable("the rank of its operand is unknown")
    if fact.dtype is None:
        raise NotApplicable("the element type of its operand is unknown")
    return len(fact.shape), fact.dtype


def _length(array: NDArray[np.float64] | None) -> int:
    return 0 if array is None else array.size


def _constant(node: Node, array: NDArray[np.float64] | None, shape: tuple[int, ...], dtype: DType, what: str) -> Value:
    storage = None if array is None else rounded(array.reshape(shape), dtype)
    if storage is None:
        raise NotApplicable(f"a result would overflow {dtype}")
    return add_constant(graph_of(node), storage, f"{node.name or node.output.name}.{what}")


def _replace(old: Node, new: Node) -> None:
    """Replace the result of `old` by `new` and remove `old`."""
    for value in [value for value in old.results if value.index]:
        old.drop_output(value.index)
    graph = graph_of(old)
    graph.insert_before(old, new)
    new.take_outputs(old)
    graph.remove(old)
