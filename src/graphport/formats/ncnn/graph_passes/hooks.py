"""Graph passes of ncnn around import and export: files have no input shapes, and each blob has one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbol, Symbolic, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.formats.ncnn.graph_passes.activation_fusions import fuse_activations, fuse_swish
from graphport.formats.ncnn.graph_passes.axes import fold_axes
from graphport.formats.ncnn.graph_passes.layer_fusions import (
    fuse_attention,
    fuse_biases,
    fuse_global_mean,
    fuse_rows,
    fuse_shuffles,
    fuse_squeezes,
)
from graphport.formats.ncnn.graph_passes.log1p_expm1 import note_functions
from graphport.formats.ncnn.graph_passes.masked_rows import drop_guards
from graphport.formats.ncnn.graph_passes.safe_softmax import expand_safe_softmax
from graphport.formats.ncnn.rules.annotations import BARE, BATCH, LINE, PLACE, annotation_parameters, type_of
from graphport.formats.ncnn.rules.emitting import MOST_AXES, remembered
from graphport.formats.ncnn.rules.integers import LIMIT, copy_integer_range, is_bits, max_magnitude
from graphport.formats.ncnn.rules.quantization import cuts_to_grid
from graphport.formats.ncnn.rules.reshape_outputs import strip_annotations
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.ops import registry
from graphport.ops.batch_coupling import first_batch_coupling
from graphport.ops.bind import bind
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Graph

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
    """Set the rank of inputs without a shape, and channels that weights determine, from the layers that use them."""
    for value in graph.inputs:
        fact = value.fact
        if not isinstance(fact, TensorFact):
            continue
        layer = value.notes.get(LINE) if value.has_notes else None
        parameters = getattr(layer, "parameters", {})
        if parameters.keys() & {PLACE, BARE} and fact.shape is not None:
            _declare_input(graph, value, parameters)
        elif fact.shape is None:
            value.fact = _expected(value)
        elif type_of(parameters) is None and _expected(value).dtype is DType.INT32:
            # The file contains sizes and no element type.
            value.fact = TensorFact(DType.INT32, fact.shape)


def _declare_input(graph: Graph, value: Value, declared: Mapping[str, Any]) -> None:
    """Insert a batch axis between an input and its consumers, as layers expect."""
    uses, first = list(value.uses), graph.first_node
    if type_of(declared) is None and _expected(value).dtype is DType.INT32 and isinstance(value.fact, TensorFact):
        value.fact = TensorFact(DType.INT32, value.fact.shape)
    inner = strip_annotations(Builder(Inference(), graph, first, stem=value.name), value, declared)
    for use in uses:
        use.read(inner)


def _expected(value: Value) -> TensorFact:
    seen: set[Value] = {value}
    pending = [value]
    found: TensorFact | None = None
    for _ in range(_FAR):
        if not pending:
            break
        current = pending.pop(0)
        for reader in current.users:
            if reader.dialect != _DIALECT:
                continue
            wanted = (
                _first_blob_fact(reader, value.name)
                if reader.operands[0] is current
                else _other_blob_fact(reader, current)
            )
            if wanted is not None and wanted.shape is not None and isinstance(wanted.shape[1], int):
                return wanted
            found = found or wanted
            if reader.op_type in _KEEPING:
                pending += [result for result in reader.results if result not in seen]
                seen.update(reader.results)
    return found or TensorFact(DType.FLOAT32, None)


def _first_blob_fact(node: Node, name: str) -> TensorFact | None:
    """Return the fact that a layer requires of its first blob; `None` if it accepts any rank."""
    height, width = Symbol(f"{name}.h", 1), Symbol(f"{name}.w", 1)
    weight = node.attributes.get("@0")
    count = weight.count if isinstance(weight, Storage) else 0
    match node.op_type:
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
        case "Dequantize" | "Requantize":
            return TensorFact(DType.INT32, None)
        case "LSTM" | "GRU" | "RNN":
            gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[node.op_type]
            ways = 2 if _integer(node, 2) == 2 else 1
            hidden = _integer(node, 3, _integer(node, 0)) if node.op_type == "LSTM" else _integer(node, 0)
            size = _integer(node, 1) // max(gates * ways * hidden, 1)
            return TensorFact(DType.FLOAT32, (1, height, size))
        case "MultiHeadAttention":
            embed = max(_integer(node, 0), 1)
            return TensorFact(DType.FLOAT32, (1, height, _integer(node, 2) // embed))
        case op_type if op_type in _PLANE:
            return TensorFact(DType.FLOAT32, (1, Symbol(f"{name}.c", 1), height, width))
        case _:
            return None


def _other_blob_fact(node: Node, value: Value) -> TensorFact | None:
    """Return the fact that a layer requires of `value`, a blob after the first: a state or a weight."""
    place, name = node.operands.index(value), value.name
    match node.op_type:
        case "LSTM" | "GRU" | "RNN":
            ways = 2 if _integer(node, 2) == 2 else 1
            size = _integer(node, 3, _integer(node, 0)) if place == 2 else _integer(node, 0)
            return TensorFact(DType.FLOAT32, (1, ways, size))
        case "Convolution" | "ConvolutionDepthWise" | "Deconvolution" | "DeconvolutionDepthWise" if place == 1:
            return TensorFact(DType.FLOAT32, (1, *(Symbol(f"{name}.{axis}", 1) for axis in ("c", "d", "h", "w"))))
        case _:
            return None


def _integer(node: Node, key: int, default: int = 0) -> int:
    value = node.attributes.get(str(key), default)
    return int(value) if isinstance(value, int | float) else default


def _area(node: Node) -> int:
    width = _integer(node, 1)
    return width * _integer(node, 11, width)


def before_export(graph: Graph) -> None:
    """Set open batch sizes to 1, and limit the rank of tensors.

    Clips that rounding performs anyway are removed.
    """
    _bind_batch(graph)
    _whole_inputs(graph)
    drop_guards(graph)
    expand_safe_softmax(graph)
    for node in list(graph):
        if not node.dialect and cuts_to_grid(node):
            node.output.replace_uses(node.operands[0])
            graph.remove(node)
    note_functions(graph)
    _drop_unread(graph)
    fold_axes(graph)


def _whole_inputs(graph: Graph) -> None:
    """Mark inputs of rank 1, and those whose first axis is not 1, as blobs that contain all axes."""
    for value in graph.inputs:
        dims = value.shape
        if dims and len(dims) <= MOST_AXES and (dims[0] != 1 or len(dims) == 1):
            value.notes[BATCH] = -1


def _drop_unread(graph: Graph) -> None:
    """Remove unused results of operators with a variable number of results."""
    op_defs = registry.op_defs()
    for node in graph:
        if len(node.outputs) < 2:
            continue
        op_def = None if node.dialect else op_defs.get(node.op_type)
        if op_def is None or op_def.is_variadic_output:
            continue
        while len(node.outputs) > 1 and ((last := node.outputs[-1]) is None or not last.uses):
            node.drop_output(len(node.outputs) - 1)


def _bind_batch(graph: Graph) -> None:
    """Set open first dims of inputs to 1, unless an operator combines elements along that axis."""
    sizes: dict[str, Dim] = {}
    for value in graph.inputs:
        dims = value.shape
        if dims and isinstance(dims[0], Symbolic) and str(dims[0]) in symbols(dims[0]):
            sizes[str(dims[0])] = graph.extents.resolved(dims[0])
    if not sizes:
        return
    # The size may follow from another operand, such as a token of one element.
    is_open = any(isinstance(dim, Symbolic) for dim in sizes.values())
    sizes = {name: 1 if isinstance(dim, Symbolic) else dim for name, dim in sizes.items()}
    twin = rewrite.copy(graph)
    bind(twin, sizes)
    Inference().graph(twin)
    if not is_open or first_batch_coupling(graph, twin) is None:
        bind(graph, sizes)
        Inference().graph(graph)


def optimize(graph: Graph) -> None:
    """Fuse several layers into one, and activations into layers."""
    fuse_biases(graph)
    fuse_attention(graph)
    fuse_shuffles(graph)
    fuse_swish(graph)
    fuse_activations(graph)
    fuse_squeezes(graph)
    fuse_global_mean(graph)
    fuse_rows(graph)


def after_export(graph: Graph) -> None:
    """Materialize constants that layers read as blobs, and insert a Split for each value with several consumers.

    Graph outputs keep their names.
    """
    for node in list(graph):
        if node.dialect:
            _pass_by(node)
        else:
            _settle(graph, node)
    _tell_outputs(graph)
    for value in list(graph.values()):
        if (len(value.uses) > 1 or (value.returns and value.is_input)) and not value.is_constant:
            _split(graph, value)
    _order(graph)


def _tell_outputs(graph: Graph) -> None:
    """Append a Noop layer to each output with annotation parameters: the missing axis and the element type."""
    for index, value in enumerate(list(graph.outputs)):
        if value.is_constant:
            _as_layer(graph, value)
            value = graph.outputs[index]  # noqa: PLW2901
        maker = value.producer
        known = {} if maker is None or maker.dialect != _DIALECT else annotation_parameters(value)
        if not known:
            continue
        source = value
        if is_bits(value):
            # The blob contains integer bits, which float arrays do not represent.
            source = Value(graph.fresh(f"{value.name}_numbers"), value.fact)
            one = storage_of(np.ones(1, np.float32), DType.FLOAT32)
            numbers: dict[str, Attribute] = {"0": 1, "1": 0, "@0": one}
            name = f"numbers_{value.name}"
            graph.append(Node("Dequantize", [value], [source], numbers, dialect=_DIALECT, name=name))
        result = Value(graph.fresh(f"{value.name}_told"), value.fact)
        graph.append(Node("Noop", [source], [result], dict(known), dialect=_DIALECT, name=f"told_{value.name}"))
        graph.set_output(index, result)
        rewrite.swap_names(value, result)


def _as_layer(graph: Graph, value: Value) -> None:
    """Replace a constant graph output by the result of a MemoryData layer."""
    storage, fact = value.storage, value.fact
    if storage is None or not isinstance(fact, TensorFact) or fact.shape is None or storage.count == 0:
        return
    node = graph.append(Node("Identity", [value], [Value(graph.fresh(value.name), fact)], origin=value.origin))
    result = node.output
    for index, each in enumerate(list(graph.outputs)):
        if each is value:
            graph.set_output(index, result)
    rewrite.swap_names(value, result)
    _settle(graph, node)
    if node.graph is not None:
        # No blob contains the elements: it is reported as a constant.
        rewrite.swap_names(value, result)
        result.replace_uses(value)
        graph.remove(node)


def _order(graph: Graph) -> None:
    """Order the unused blobs like the graph outputs; the file has no other output order.

    The layer of an early output moves to the end; if it has other results, a copy layer is used.
    """
    if len(graph.outputs) < 2:
        return
    positions = {result: place for place, result in enumerate(result for node in graph for result in node.results)}
    found = [positions[value] for value in graph.outputs if value in positions]
    if found == sorted(found):
        return
    moved: dict[Node, None] = {}
    for index, value in enumerate(list(graph.outputs)):
        node = value.producer
        if node is None or len(value.uses) > 1:
            continue
        if len(node.results) == 1:
            moved[node] = None
            continue
        copy = Value(graph.fresh(f"{value.name}_copy"), value.fact)
        moved[graph.append(Node("Noop", [value], [copy], dialect=_DIALECT, name=f"copy_{value.name}"))] = None
        graph.set_output(index, copy)
        rewrite.swap_names(value, copy)
    graph.reorder([*(node for node in graph if node not in moved), *moved])


def _pass_by(node: Node) -> None:
    """Remove a Noop layer without parameters, unless its result is a graph output."""
    is_noop = node.op_type == "Noop" and node.dialect == _DIALECT and not node.stated
    if is_noop and len(node.inputs) == 1 and node.graph is not None:
        source, result = node.operands[0], node.output
        if not result.is_output:
            result.replace_uses(source)
            node.graph.remove(node)


def _settle(graph: Graph, node: Node) -> None:
    """Fold a node with constant operands: to a MemoryData layer if a layer or an output uses it, else to a constant."""
    if node.graph is None or node.dialect or len(node.results) != 1:
        return
    (value,) = node.results  # not always the first one: of a recurrent layer the last state alone may be read
    storage = folded(value)
    if storage is None:
        return
    if value.returns or any(user.dialect == _DIALECT for user in value.users):
        blob = _remembered(graph, node)
    else:
        blob = graph.add_constant(graph.fresh(value.name), value.fact, storage, origin=node.origin)
    if blob is not None:
        rewrite.swap_names(value, blob)
        value.replace_uses(blob)
        graph.remove(node)


def _remembered(graph: Graph, node: Node) -> Value | None:
    """Return the value of `node` as a MemoryData layer; `None` if ncnn cannot represent it."""
    (value,) = node.results
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype in (None, DType.STRING):
        return None
    if not fact.dtype.is_floating and max_magnitude(value) >= LIMIT:
        return None
    builder = Builder(Inference(), graph, node, dialect=_DIALECT, origin=node.origin, stem=value.name)
    try:
        made = remembered(builder, value)
    except UnsupportedError:
        return None
    made.fact = fact
    copy_integer_range(made, value)
    return made


def _split(graph: Graph, value: Value) -> None:
    uses = list(value.uses)
    copies = [Value(graph.fresh(f"{value.name}_split"), value.fact) for _ in uses]
    node = Node("Split", [], copies, dialect=_DIALECT, name=f"split_{value.name}")
    graph.insert_after(value.producer, node)
    for use, copy in zip(uses, copies, strict=True):
        use.read(copy)
    node.inputs = [value]
    returned = [copy for copy in copies if copy.returns]
    if returned and not value.is_input:
        name, other = value.name, returned[0].name
        graph.rename(value, other)
        graph.rename(returned[0], name)
