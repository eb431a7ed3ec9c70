"""Known faults of native runtimes: operators that they compute incorrectly, and nodes that they round by default.

A runtime with a known fault in a model does not compute it. `habits` lists nodes that the default configuration rounds,
and that the strict one computes as the file states. docs/proof.md lists both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx.runtime import has_real_weights
from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.ops.definitions.indexing.slicing import FAR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Graph, Node, Value


class Fault(NamedTuple):
    """A fault of a runtime: the version, a description, and a predicate of the nodes that it affects."""

    runtime: str
    seen: str
    what: str
    is_met: Callable[[Node], bool]


def _takes_open_sequences_for_whole(node: Node) -> bool:
    # Operand 5 of recurrent layers has the sequence length of each sample.
    if "hidden_size" not in node.attributes or node.operand(4) is None:
        return False
    fact = node.operands[0].fact
    shape = fact.shape if isinstance(fact, TensorFact) else None
    return shape is None or not all(isinstance(dim, int) for dim in shape[:2])


def _slices_backwards(node: Node) -> bool:
    steps = node.operand(4) if node.op == "Slice" else None
    if steps is None or steps.storage is None:
        return False
    return bool((steps.storage.numpy() < 0).any())


def _slices_to_an_end_of_zero(node: Node) -> bool:
    """Whether an axis is sliced from 0 to its end with step 1: NNEF may write this end as 0."""
    if node.op != "Slice":
        return False
    starts, ends, steps = (_constant_elements(node.operand(place)) for place in (1, 2, 4))
    pairs = zip(starts, ends, steps or [1] * len(starts), strict=False)
    return any(start == 0 and end >= FAR and step == 1 for start, end, step in pairs)


def _constant_elements(value: Value | None) -> list[int]:
    return [] if value is None or value.storage is None else value.storage.numpy().reshape(-1).tolist()


def _is_across_channels(node: Node) -> bool:
    return node.op == "LRN"


def _divides_quantized(node: Node) -> bool:
    """Whether one operator of the file divides quantized values: its quotient shifts -1 by more than 31 bits."""
    makers = [value.producer for value in node.operands] if node.op == "Div" else []
    return bool(makers) and all(
        maker is not None and maker.op == "DequantizeLinear" and maker.origin == node.origin is not None
        for maker in makers
    )


def _casts_to_unsaturated_float8(node: Node) -> bool:
    """Whether elements from 61440 to 65536, which round to infinity, may be cast."""
    is_open = node.attributes.get("saturate", 1) == 0
    return is_open and any(value.dtype is DType.FLOAT8E5M2 for value in node.results)


def _reads_wide_integers(node: Node) -> bool:
    """Whether a constant has integers beyond 32 bits; those of 62 bits and more only state that there is no limit."""
    if node.op == "Slice":
        return False
    is_cast = node.op == "Cast" and node.output.dtype in _WIDE
    for value in node.operands:
        storage = value.storage
        if storage is None or storage.count > _MAX_CONSTANTS or not (is_cast or value.dtype in _WIDE):
            continue
        sizes = np.abs(storage.numpy().astype(np.float64))
        if bool(((sizes >= 2.0**31) & (sizes < 2.0**62)).any()):
            return True
    return False


_WIDE = (DType.INT64, DType.UINT64)
_MAX_CONSTANTS = 64
"""Elements of a constant up to which they are looked at."""


def _passes_bfloat16(node: Node) -> bool:
    """Whether an input or output of the model is bfloat16, which the runtime has no Python arrays of."""
    inputs = [value for value in node.inputs if value is not None and value.producer is None and value.storage is None]
    ports = [*inputs, *(value for value in node.results if value.is_output)]
    return any(value.dtype is DType.BFLOAT16 and value.graph is value.graph.root for value in ports if value.graph)


FAULTS: tuple[Fault, ...] = (
    Fault("litert", "2.3", "inputs and outputs of bfloat16, which its Python interface lacks", _passes_bfloat16),
    Fault("litert", "2.3", "quotients of quantized values near 0", _divides_quantized),
    Fault(
        "openvino",
        "2026.4.1",
        "recurrent layers over sequences of several lengths, where the batch or the number of steps is open",
        _takes_open_sequences_for_whole,
    ),
    Fault("onnxruntime", "1.31, 1.32", "casts to float8e5m2 without saturation", _casts_to_unsaturated_float8),
    Fault("openvino", "2026.4.1", "integers beyond 32 bits, which it computes in 32 bits", _reads_wide_integers),
    Fault("tract", "0.23.9", "slices with a negative step", _slices_backwards),
    Fault("tract", "0.23.9", "a slice from 0 to an end of 0", _slices_to_an_end_of_zero),
    Fault("tract", "0.23.9", "normalization over neighbouring channels", _is_across_channels),
)


def _multiplies_compressed(node: Node) -> bool:
    """Whether exactly one operand is quantized, and stored as integers."""
    if node.op != "MatMul" or len(node.operands) != 2:
        return False
    makers = [value.producer for value in node.operands]
    found = [maker for maker in makers if maker is not None and maker.op == "DequantizeLinear"]
    return len(found) == 1 and found[0] is makers[1] and found[0].operands[0].is_constant


def _has_rounded_real_weights(node: Node) -> bool:
    """Whether a layer with a bias has float weights between quantized activations."""
    op_def = registry.op_defs().get(node.op)
    given = None if node.operand(0) is None else node.operands[0].producer
    if op_def is None or not op_def.bias or given is None or given.op != "DequantizeLinear":
        return False
    return has_real_weights(node) and any(user.op == "QuantizeLinear" for user in node.output.users)


HABITS: tuple[Fault, ...] = (
    Fault(
        "onnxruntime",
        "1.31, 1.32",
        "rounds what is multiplied with compressed weights to eight bits, which is 0.5 to 1 % of the result, unless "
        "session.qdq_matmulnbits_accuracy_level is 1",
        _multiplies_compressed,
    ),
    Fault(
        "onnxruntime",
        "1.31",
        "rounds real weights between quantized activations to eight bits with one scale for all, which is 5 % of the "
        "result and more, unless its session is made with disabled_optimizers=['WeightBiasQuantization']",
        _has_rounded_real_weights,
    ),
)
"""Deviations of a runtime's default configuration from its strict one."""


def habits(runtime: str, graph: Graph) -> list[str]:
    """Describe the default transformations of `runtime` that change results of this graph, with node counts."""
    found: list[str] = []
    for habit in HABITS:
        count = sum(habit.is_met(node) for inner in walk(graph) for node in inner) if habit.runtime == runtime else 0
        found += [f"{habit.what} ({count} here)"] if count else []
    return found


def ends_onnx_runtime(node: Node) -> bool:
    """Whether a Transpose moves the first axis back, before a MatMul with a constant.

    In float16 that crashes ONNX Runtime 1.31 and 1.32: they fuse both nodes into a product without a float16 kernel,
    and follow a null pointer while they look for casts around it.
    """
    perm = node.attributes.get("perm")
    if node.dialect or node.op_type != "Transpose" or not isinstance(perm, tuple) or len(perm) < 3:
        return False
    rank = len(perm)
    if perm not in ((*range(1, rank - 1), 0, rank - 1), (*range(1, rank), 0)):
        return False
    return any(user.op == "MatMul" for user in node.output.users)


def ends_in_halves(graph: Graph) -> list[Node]:
    """Return the float16 nodes of a graph that crash ONNX Runtime on loading."""
    return [
        node
        for inner in walk(graph)
        for node in inner
        if ends_onnx_runtime(node)
        and isinstance(node.output.fact, TensorFact)
        and node.output.fact.dtype is DType.FLOAT16
        and any(user.op == "MatMul" and any(x.is_constant for x in user.operands) for user in node.output.users)
    ]


_POLES = {"Div": 1, "Reciprocal": 0, "Log": 0}
"""Operators that are infinite at 0, and the operand."""
_WITHOUT_POLES = frozenset({"ncnn"})
"""Runtimes that compute NaN there."""


def pole(runtime: str | None, node: Node, operands: Sequence[Any]) -> str | None:
    """Return why a runtime computes NaN where the result of a node is infinite; `None` if it does not."""
    if runtime not in _WITHOUT_POLES or node.op not in _POLES or np.all(operands[_POLES[node.op]]):
        return None
    return f"{runtime} computes NaN where {node.op} {node.name or node.output.name} is infinite, at an operand of 0"


def known_fault(runtime: str, graph: Graph) -> Fault | None:
    """Return the first known fault of `runtime` that affects a node of a graph; `None` without one."""
    known = [fault for fault in FAULTS if fault.runtime == runtime]
    nodes = (node for inner in walk(graph) for node in inner) if known else ()
    return next((fault for node in nodes for fault in known if fault.is_met(node)), None)
