"""Models that compute each sample of a batch independently: batch sizes and values of inputs need no combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ops.batch_coupling import first_batch_coupling
from graphport.ops.bind import bind
from graphport.ops.infer import Inference
from graphport.runtimes import work
from graphport.runtimes.inputs import open_axes

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value

MIN_MACS = 1 << 29
"""Multiply-accumulates of a sample below which all combinations are run."""
_BATCHES = (4099, 8209)
"""Primes above the sizes in a graph, so that a dim that depends on the batch is a multiple of it."""
_OPERATORS = frozenset({
    *("Conv", "ConvTranspose", "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
    *("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"),
    *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Mish"),
    *("Gelu", "Swish", "Softplus", "Softsign", "Clip", "Exp", "Log", "Sqrt", "Erf", "Neg", "Abs", "Reciprocal"),
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Identity", "Cast", "Softmax", "LogSoftmax", "Flatten"),
    *("Reshape", "Transpose", "Concat", "Squeeze", "Unsqueeze", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"),
    *("Pad", "Resize", "DepthToSpace", "SpaceToDepth"),
})  # fmt: skip
"""Operators without sizes, control flow or indices as operands, whose axes show whether they combine samples."""


def is_heavy(graph: Graph) -> bool:
    """Whether a run of one sample takes so long that combinations of sizes and values are worth avoiding."""
    batch, others = open_axes(graph)
    return not others and work.total_macs(graph, graph.extents.evaluate_symbols(batch)) >= MIN_MACS


def has_independent_samples(graph: Graph) -> bool:
    """Whether a batch is the only open dim, and each sample of the results depends on one sample of the inputs."""
    batch, others = open_axes(graph)
    if others or len(batch) != 1 or any(node.op not in _OPERATORS or node.dialect for node in graph):
        return False
    if any(node.op == "BatchNormalization" and node.attributes.get("training_mode") for node in graph):
        return False
    twins = [_bind_batch(graph, dict.fromkeys(batch, size)) for size in _BATCHES]
    reached = [set(twin.inputs) for twin in twins]
    for nodes in zip(*twins, strict=True):
        for node, known in zip(nodes, reached, strict=True):
            known.update(node.results if any(value in known for value in node.operands) else ())
    is_leading = all(
        _has_leading_batch(value, size) for known, size in zip(reached, _BATCHES, strict=True) for value in known
    )
    return is_leading and first_batch_coupling(*twins) is None


def _bind_batch(graph: Graph, sizes: dict[str, int]) -> Graph:
    twin = rewrite.copy(graph)
    bind(twin, dict(sizes))
    Inference().graph(twin)
    return twin


def _has_leading_batch(value: Value, size: int) -> bool:
    """Whether the first dim of a value is a multiple of the batch, and no other dim is."""
    first, *others = value.shape or (0,)
    return (
        isinstance(first, int)
        and first > 0
        and first % size == 0
        and not any(dim % size == 0 for dim in others if isinstance(dim, int) and dim)
    )
