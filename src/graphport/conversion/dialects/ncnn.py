"""ncnn's files say no shapes of inputs, and every blob has one reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_DIALECT = "ncnn"
_PLANE = ("Convolution", "ConvolutionDepthWise", "Deconvolution", "Pooling", "Interp", "PixelShuffle", "ShuffleChannel")
_KEEPING = frozenset(
    {
        *("Split", "ReLU", "Clip", "Sigmoid", "TanH", "Swish", "HardSwish", "HardSigmoid", "UnaryOp", "BinaryOp"),
        *("Eltwise", "Dropout", "Noop", "Scale", "BatchNorm", "PReLU", "Padding", "LayerNorm", "InstanceNorm"),
        *("GroupNorm", "Cast", "Mish", "ELU", "SELU", "GELU", "Power", "AbsVal", "Softplus"),
    }
)
_FAR = 64
"""Layers that are followed from an input at most."""


def before(graph: Graph) -> None:
    """Give inputs of unknown shape the rank, and where it shows the number of channels, that their readers need."""
    for value in graph.inputs:
        fact = value.fact
        if isinstance(fact, TensorFact) and fact.shape is None:
            value.fact = _expected(value)


def _expected(value: Value) -> TensorFact:
    seen: set[Value] = {value}
    pending = [value]
    found: TensorFact | None = None
    for _ in range(_FAR):
        if not pending:
            break
        for reader in pending.pop(0).users:
            if reader.dialect != _DIALECT:
                continue
            wanted = _wanted(reader, value.name)
            if wanted is not None and wanted.shape is not None and isinstance(wanted.shape[1], int):
                return wanted
            found = found or wanted
            if reader.word in _KEEPING:
                pending += [result for result in reader.results if result not in seen]
                seen.update(reader.results)
    return found or TensorFact(DType.FLOAT32, None)


def _wanted(node: Node, name: str) -> TensorFact | None:
    """What a layer needs its first blob to be."""
    height, width = Symbol(f"{name}.h", 1), Symbol(f"{name}.w", 1)
    weight = node.attributes.get("@0")
    count = weight.count if isinstance(weight, Storage) else 0
    match node.word:
        case "Convolution" | "Deconvolution":
            channels = count // max(_integer(node, 0) * _area(node), 1)
            return TensorFact(DType.FLOAT32, (1, channels or Symbol(f"{name}.c", 1), height, width))
        case "ConvolutionDepthWise":
            group = max(_integer(node, 7, 1), 1)
            channels = count // max(_integer(node, 0) * _area(node), 1) * group
            return TensorFact(DType.FLOAT32, (1, channels or Symbol(f"{name}.c", 1), height, width))
        case "BatchNorm" | "InstanceNorm" | "PReLU":
            return None
        case "Embed":
            return TensorFact(DType.INT32, (1, width))
        case "LSTM" | "GRU" | "RNN":
            gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[node.word]
            ways = 2 if _integer(node, 2) == 2 else 1
            size = _integer(node, 1) // max(gates * ways * _integer(node, 0), 1)
            return TensorFact(DType.FLOAT32, (1, height, size))
        case "MultiHeadAttention":
            embed = max(_integer(node, 0), 1)
            return TensorFact(DType.FLOAT32, (1, height, _integer(node, 2) // embed))
        case word if word in _PLANE:
            return TensorFact(DType.FLOAT32, (1, Symbol(f"{name}.c", 1), height, width))
        case _:
            return None


def _integer(node: Node, key: int, default: int = 0) -> int:
    value = node.attributes.get(str(key), default)
    return int(value) if isinstance(value, int | float) else default


def _area(node: Node) -> int:
    width = _integer(node, 1)
    return width * _integer(node, 11, width)


def after_lifting(graph: Graph) -> None:
    """Let a layer copy every value that has several readers; what the graph returns keeps its name."""
    for value in list(graph.values()):
        if value.is_constant or (len(value.uses) < 2 and not (value.is_input and value.returns)):
            continue
        _split(graph, value)


def _split(graph: Graph, value: Value) -> None:
    uses = list(value.uses)
    copies = [Value(graph.fresh(f"{value.name}_split"), value.fact) for _ in uses]
    node = Node("Split", [], copies, dialect=_DIALECT, name=f"split_{value.name}")
    first = graph.first
    if value.producer is not None:
        graph.insert_after(value.producer, node)
    elif first is not None:
        graph.insert_before(first, node)
    else:
        graph.append(node)
    for (user, index), copy in zip(uses, copies, strict=True):
        if isinstance(user, Node):
            user.set_input(index, copy)
        else:
            user.set_output(index, copy)
    node.inputs = [value]
    returned = [copy for copy in copies if copy.returns]
    if returned and not value.is_input:
        name, other = value.name, returned[0].name
        graph.rename(value, other)
        graph.rename(returned[0], name)
