"""Fuse several ncnn layers into one: products with bias, channel shuffles, multi-head attention."""

from __future__ import annotations

from math import isclose, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.formats.ncnn.graph_passes.activation_fusions import drop_copies, pass_on

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_ADD, _MULTIPLY, _MEAN = 0, 2, 3
_FURTHER = ("8", "9")
"""Parameters of a product that make it another thing: integers, an activation."""


def fuse_biases(graph: Graph) -> int:
    """Fold a constant addend into the bias of a product; return the number of fusions.

    Before  h = InnerProduct(x, w);  y = BinaryOp(h, MemoryData(b), 0=0)
    After   y = InnerProduct(x, w, b)

    Does not apply unless the addend has one element per output, or if the product has another consumer.
    """
    count = 0
    for node in list(graph):
        if node.op_type != "BinaryOp" or node.attributes.get("0", 0) != _ADD or len(node.operands) != 2:
            continue
        for x, y in (node.operands, node.operands[::-1]):
            layer, memory = _sole_producer(x, "InnerProduct"), _sole_producer(y, "MemoryData")
            if (
                layer is None
                or memory is None
                or layer.attributes.get("1")
                or any(layer.attributes.get(k) for k in _FURTHER)
            ):
                continue
            bias, outputs = memory.attributes.get("@0"), layer.attributes.get("0")
            if not isinstance(bias, Storage) or bias.count != outputs or not _is_along(memory, x):
                continue
            layer.set_attribute("1", 1)
            layer.set_attribute("@1", bias.reshaped((bias.count,)))
            pass_on(graph, node, layer)
            graph.remove(memory)
            count += 1
            break
    return count


def _is_along(memory: Node, like: Value) -> bool:
    """Whether the constant of a MemoryData layer broadcasts along the last axis of `like`.

    ncnn broadcasts a vector along the first axis of equal size, so the constant needs the rank of `like`.
    """
    dims = like.shape
    own = [memory.attributes[key] for key in ("2", "11", "1", "0") if key in memory.attributes]
    return dims is not None and len(own) == len(dims) - 1 and all(n == 1 for n in own[:-1])


def fuse_shuffles(graph: Graph) -> int:
    """Fuse Reshape, Permute and Reshape of channel groups to ShuffleChannel; return the number of fusions.

    Before  h = Reshape(x, [groups, channels, height, width]);  y = Reshape(Permute(h, 0=6), [all, height, width])
    After   y = ShuffleChannel(x, 0=groups)
    """
    count = 0
    for node in list(graph):
        permute = _sole_producer(node.operands[0], "Permute") if node.op_type == "Reshape" and node.operands else None
        reshape = None if permute is None else _sole_producer(permute.operands[0], "Reshape")
        if permute is None or reshape is None or len(reshape.operands) != 1:
            continue
        if permute.attributes.get("0") != _DEPTH_AND_CHANNELS:
            continue
        groups, each, *plane = (reshape.attributes.get(key) for key in ("2", "11", "1", "0"))
        joined = [node.attributes.get(key) for key in ("2", "1", "0")]
        if not isinstance(groups, int) or not isinstance(each, int) or min(groups, each) < 1:
            continue
        if "11" in node.attributes or any("6" in shape.attributes for shape in (node, reshape)):
            continue
        if joined != [groups * each, *plane]:
            continue
        node.op_type, node.inputs = "ShuffleChannel", list(reshape.operands)
        node.attributes.clear()
        node.attributes["0"] = groups
        graph.remove(permute)
        graph.remove(reshape)
        count += 1
    return count


_DEPTH_AND_CHANNELS = 6
"""The order of axes that exchanges the two outermost."""


def fuse_rows(graph: Graph) -> int:
    """Replace products of several rows by Gemm, which is faster; return the number.

    Before  y = InnerProduct(x, w, b)
    After   y = Gemm(x, w, b)

    Does not apply to vectors, to layers with an activation, and to integers.
    """
    count = 0
    for node in graph:
        if node.op_type != "InnerProduct" or any(node.attributes.get(key) for key in _FURTHER):
            continue
        fact, weight, bias = node.operands[0].fact, node.attributes.get("@0"), node.attributes.get("@1")
        dims = fact.shape if isinstance(fact, TensorFact) else None
        if dims is None or len(dims) != _ROWS or dims[1] == 1 or not isinstance(weight, Storage):
            continue
        outputs, width, rows = node.attributes.get("0"), _width(node), dims[1]
        if not isinstance(outputs, int) or not width or dims[2] != width:
            continue
        has_bias = isinstance(bias, Storage)
        node.op_type = "Gemm"
        node.attributes.clear()
        node.attributes.update({"10": _ONE_A_COLUMN if has_bias else -1, "2": 0, "3": 1, "4": 0, "5": 1, "6": 1})
        node.attributes.update({"7": rows if isinstance(rows, int) else 0, "8": outputs, "9": width, "@0": weight})
        if isinstance(bias, Storage):
            node.attributes["@1"] = bias
        count += 1
    return count


def fuse_squeezes(graph: Graph) -> int:
    """Compute squeeze-and-excitation on vectors instead of 1x1 images; return the number of rewrites.

    Before  h = Reduction(x, mean over height and width);  w = Sigmoid(Convolution(h, 1x1));  y = BinaryOp(x, w, 0=2)
    After   h = Pooling(x, 4=1);  w = Sigmoid(InnerProduct(h));  y = BinaryOp(x, w, 0=2)

    Does not apply if an intermediate value has another consumer, or to other layers in between.
    """
    count = 0
    for node in list(graph):
        chain = _squeezed(node) if _is_mean(node) else []
        if not chain:
            continue
        _as_pooling(node)
        for layer in (node, *chain):
            if layer.op_type == "Convolution":
                _as_product(layer)
            fact = layer.results[0].fact
            if isinstance(fact, TensorFact) and fact.shape is not None:
                layer.results[0].fact = TensorFact(fact.dtype, fact.shape[:2])
        count += 1
    return count


def fuse_global_mean(graph: Graph) -> int:
    """Replace means over height and width by global pooling to a vector; return the number.

    Before  h = Reduction(x, mean over height and width);  y = Flatten(h)
    After   y = Pooling(x, 4=1)
    """
    count = 0
    for node in list(graph):
        mean = _sole_producer(node.operands[0], "Reduction") if node.op_type == "Flatten" else None
        if mean is None or not _is_mean(mean):
            continue
        picture, pixel, vector = (each.shape for each in (mean.operands[0], mean.results[0], node.results[0]))
        if picture is None or pixel is None or len(picture) != _PICTURE or pixel != (*picture[:2], 1, 1):
            continue
        if vector != picture[:2]:
            continue
        _as_pooling(mean)
        pass_on(graph, node, mean)
        count += 1
    return count


def _is_mean(node: Node) -> bool:
    """Whether a Reduction is a mean; its axes follow from the result shape."""
    return node.op_type == "Reduction" and node.attributes.get("0") == _MEAN and node.attributes.get("2", 1) == 1


def _as_pooling(mean: Node) -> None:
    mean.op_type = "Pooling"
    mean.attributes.clear()
    mean.attributes.update({"0": 1, "4": 1})


def _squeezed(node: Node) -> list[Node]:
    """Return the 1x1 layers between a mean and the product with an image of equal channels.

    Empty if there are others.
    """
    found: list[Node] = []
    value = node.results[0]
    while len(value.uses) == 1 and not value.returns:
        (user,) = value.users
        dims = value.shape
        if dims is None or len(dims) != _PICTURE or dims[2:] != (1, 1):
            return []
        if user.op_type == "BinaryOp" and user.attributes.get("0") == _MULTIPLY and len(user.operands) == 2:
            other = user.operands[0] if user.operands[1] is value else user.operands[1]
            picture = other.shape
            is_known = picture is not None and len(picture) == _PICTURE and picture[:2] == dims[:2]
            return found if is_known and any(each.op_type == "Convolution" for each in found) else []
        if user.op_type not in _ON_PIXELS and not _is_pointwise(user):
            return []
        found.append(user)
        value = user.results[0]
    return []


_PICTURE = 4
_ON_PIXELS = frozenset(("ReLU", "Sigmoid", "Swish", "HardSwish", "HardSigmoid", "Clip", "TanH", "ELU", "Mish"))


def _is_pointwise(layer: Node) -> bool:
    """Whether a Convolution of a 1x1 image equals a matrix product: no padding, no int8 weights, no weight operand."""
    is_plain = not any(layer.attributes.get(key, 0) for key in ("4", "14", "15", "16", "8"))
    return layer.op_type == "Convolution" and len(layer.operands) == 1 and is_plain


def _as_product(layer: Node) -> None:
    names = {"0": "0", "5": "1", "6": "2", "9": "9", "10": "10", "@0": "@0", "@1": "@1"}
    kept = {new: layer.attributes[old] for old, new in names.items() if old in layer.attributes}
    layer.op_type = "InnerProduct"
    layer.attributes.clear()
    layer.attributes.update(kept)


_ROWS, _ONE_A_COLUMN = 3, 4
"""Axes of a matrix with a batch in front; a number that is added for each output."""


class _Projected(NamedTuple):
    """An InnerProduct whose result is split into heads, and the layers that split it, last one first."""

    layer: Node
    heads: int
    size: int
    path: tuple[Node, ...]


def fuse_attention(graph: Graph) -> int:
    """Fuse projections, attention per head and output projection; return the number of fusions.

    Before  y = InnerProduct(Reshape(Permute(MatMul(Softmax(MatMul(s * q, k)), v))))  with q, k, v in heads
    After   y = MultiHeadAttention(x, x, x)

    Does not apply to masks, or if an intermediate value has another consumer. Values are equal up to rounding.
    """
    count = 0
    for node in list(graph):
        if node.op_type == "InnerProduct" and node.graph is graph and not any(node.attributes.get(k) for k in _FURTHER):
            count += _attend(graph, node)
    return count


def _attend(graph: Graph, last: Node) -> bool:
    joined = _sole_producer(last.operands[0], "Reshape")
    permute = None if joined is None else _sole_producer(joined.operands[0], "Permute")
    mixed = None if permute is None else _sole_producer(permute.operands[0], "MatMul")
    if (
        joined is None
        or permute is None
        or mixed is None
        or permute.attributes.get("0") != _HEADS_IN
        or not _is_plain_product(mixed)
    ):
        return False
    shares = _sole_producer(mixed.operands[0], "Softmax")
    scores = None if shares is None else _sole_producer(shares.operands[0], "MatMul")
    if shares is None or scores is None or shares.attributes.get("0") != _LAST or not _is_plain_product(scores):
        return False
    scaled = _sole_producer(scores.operands[0], "BinaryOp")
    if scaled is None or scaled.attributes.get("0") != _MULTIPLY or not scaled.attributes.get("1"):
        return False
    factor = scaled.attributes.get("2")
    found = [
        _projected(scaled.operands[0], _HEADS_OUT),
        _projected(scores.operands[1], _KEYS_OUT),
        _projected(mixed.operands[1], _HEADS_OUT),
    ]
    parts = [part for part in found if part is not None]
    forms = {(part.heads, part.size) for part in parts}
    if len(parts) < len(found) or len(forms) > 1 or not isinstance(factor, float):
        return False
    ((heads, size),) = forms
    embed, width = heads * size, _width(parts[0].layer)
    if last.attributes.get("0") != width or _width(last) != embed or joined.attributes.get("1", 1) == 1:
        return False
    sources = [part.layer.operands[0] for part in parts]
    weights = [storage for layer in [*(part.layer for part in parts), last] for storage in _weights(layer)]
    inputs = _one_source(sources)
    last.op_type, last.inputs = "MultiHeadAttention", inputs
    last.attributes.clear()
    last.attributes.update({"0": embed, "1": heads, "2": embed * width})
    last.attributes.update({"3": _width(parts[1].layer), "4": _width(parts[2].layer)})
    if not isclose(factor, 1 / sqrt(size), rel_tol=1e-6):
        last.attributes["6"] = factor
    last.attributes.update({f"@{index}": storage for index, storage in enumerate(weights)})
    for each in (
        joined,
        permute,
        mixed,
        shares,
        scores,
        scaled,
        *(n for part in parts for n in (*part.path, part.layer)),
    ):
        graph.remove(each)
    drop_copies(graph, [source for source in sources if source not in inputs])
    return True


_HEADS_IN = _HEADS_OUT = 2
_KEYS_OUT = 3
_LAST = 2


def _is_plain_product(node: Node) -> bool:
    """Whether a MatMul layer does not transpose its second operand."""
    return not node.attributes.get("0")


def _projected(value: Value, order: int) -> _Projected | None:
    permute = _sole_producer(value, "Permute")
    reshape = None if permute is None else _sole_producer(permute.operands[0], "Reshape")
    layer = None if reshape is None else _sole_producer(reshape.operands[0], "InnerProduct")
    if permute is None or reshape is None or layer is None or permute.attributes.get("0") != order:
        return None
    heads, size = reshape.attributes.get("1"), reshape.attributes.get("0")
    is_plain = not any(layer.attributes.get(key) for key in _FURTHER) and not {"6", "11"} & reshape.attributes.keys()
    if (
        not is_plain
        or not isinstance(heads, int)
        or not isinstance(size, int)
        or layer.attributes.get("0") != heads * size
    ):
        return None
    return _Projected(layer, heads, size, (permute, reshape))


def _width(layer: Node) -> int:
    """Return the number of input features of an InnerProduct."""
    count, outputs = layer.attributes.get("2"), layer.attributes.get("0")
    return count // outputs if isinstance(count, int) and isinstance(outputs, int) and outputs else 0


def _weights(layer: Node) -> tuple[Storage, Storage]:
    """Return weight and bias of an InnerProduct; zeros without a bias."""
    weight, bias, outputs = (layer.attributes.get(key) for key in ("@0", "@1", "0"))
    if not isinstance(bias, Storage):
        bias = storage_of(np.zeros(outputs if isinstance(outputs, int) else 0, np.float32), DType.FLOAT32)
    if not isinstance(weight, Storage):
        message = f"{layer.name} has no weights"
        raise TypeError(message)
    return weight, bias


def _one_source(sources: list[Value]) -> list[Value]:
    """Return one source if all are the same blob or results of the same Split, else all sources."""
    makers = {source.producer for source in sources}
    maker = sources[0].producer
    is_one = len(set(sources)) == 1 or (len(makers) == 1 and maker is not None and maker.op_type == "Split")
    return sources[:1] if is_one else sources


def _sole_producer(value: Value, op_type: str) -> Node | None:
    """Return the producer of `value` if it has this op type and one result, and `value` has one consumer."""
    maker = value.producer
    if maker is None or maker.op_type != op_type or len(value.uses) != 1 or value.returns or len(maker.results) != 1:
        return None
    return maker
