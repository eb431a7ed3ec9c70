"""View a node with a constant weight as a matrix product of input rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.definitions.convolution.window import padded

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value

Array: TypeAlias = "np.ndarray[Any, Any]"
Kind = Literal["convolution", "transposed", "product"]

LARGE = 1 << 30
"""Bytes of float weights from which a model is large."""
LARGE_UNSEEN = 1 << 28
"""The same if there are no samples: weights are not adjusted to anything then."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A node with a constant weight.

    `weight` and `bias` are the constants in the graph; `adds` is the node that adds the bias if that is not the layer.
    `out_axis` and `in_axis` are the weight's axes of outputs and inputs. `pairs_by_place`: kernels pair channels of one
    kernel position only, an odd last one is unpaired. `pairs_vary`: the paired weights depend on the kernel.
    """

    node: Node
    kind: Kind
    weight: Value
    bias: Value | None
    adds: Node | None
    out_axis: int
    in_axis: int
    groups: int
    pairs_by_place: bool = False
    pairs_vary: bool = False

    @property
    def input(self) -> Value:
        """The multiplied value."""
        return self.node.operands[0]

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.node.name or self.node.output.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return self.weight.storage.shape if self.weight.storage is not None else ()

    @property
    def channels(self) -> int:
        """The number of output channels."""
        return self.shape[self.out_axis] * (self.groups if self.kind == "transposed" else 1)

    @property
    def depth(self) -> int:
        """The number of products per sum."""
        return (
            prod(self.shape) // max(self.shape[self.out_axis], 1) // (self.groups if self.kind == "transposed" else 1)
        )

    def float_weight(self) -> Array:
        """The weight as float32."""
        return _float_elements(self.weight)

    def offsets(self) -> Array:
        """The bias as float32; zeros if there is none."""
        return np.zeros(self.channels, np.float32) if self.bias is None else _float_elements(self.bias).reshape(-1)

    def matrix(self, weight: Array) -> Array:
        """Reshape `weight` to [groups, channels of a group, depth]; a transposed convolution has no such form.

        The depth iterates over kernel positions, then channels, like integer kernels; unpaired channels are last.
        """
        if self.kind == "product":
            return (weight.T if self.out_axis else weight)[None]
        moved = np.moveaxis(weight, 1, -1)
        return self._reorder_depth(moved.reshape(self.groups, weight.shape[0] // self.groups, -1))

    def _reorder_depth(self, x: Array, *, undo: bool = False) -> Array:
        """Reorder the depth axis to the order of `matrix`, or back."""
        channels = self.shape[1]
        if not self.pairs_by_place or channels % 2 == 0:
            return x
        indices = np.arange(prod(self.shape[1:]))
        is_alone = indices % channels == channels - 1
        order = np.concatenate([indices[~is_alone], indices[is_alone]])
        return x[..., np.argsort(order) if undo else order]

    def unmatrix(self, matrix: Array) -> Array:
        """Invert `matrix`."""
        if self.kind == "product":
            return np.ascontiguousarray(matrix[0].T if self.out_axis else matrix[0])
        shape = self.shape
        matrix = self._reorder_depth(matrix, undo=True)
        return np.ascontiguousarray(np.moveaxis(matrix.reshape(shape[0], *shape[2:], shape[1]), -1, 1))

    def rows(self, x: Array, indices: Array) -> Array:
        """Return the input rows that are multiplied: [groups, len(places), depth]; see `indices`."""
        if self.kind == "product":
            return x.reshape(-1, x.shape[-1])[indices][None]
        window = _Window.of(self, x.shape)
        return self._reorder_depth(window.rows(x, indices, self.groups))

    def count(self, shape: tuple[int, ...]) -> int:
        """Return the number of rows multiplied with the weight matrix: vectors of a product, windows of a Conv."""
        if self.kind == "product":
            return prod(shape[:-1])
        window = _Window.of(self, shape)
        return shape[0] * prod(window.lengths)


@dataclass(frozen=True, slots=True)
class _Window:
    """Window of a convolution: ONNX Conv's attributes for one input."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, layer: Layer, shape: tuple[int, ...]) -> _Window:
        kernel = layer.shape[2:]
        rank = len(kernel)
        strides = _integers(layer.node, "strides", (1,) * rank)
        dilations = _integers(layer.node, "dilations", (1,) * rank)
        reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = _integers(layer.node, "pads", (0,) * (2 * rank))
        mode = layer.node.attributes.get("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            total = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(shape[2:], strides, reaches, strict=True)]
            less, more = [t // 2 for t in total], [t - t // 2 for t in total]
            pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
        elif mode == "VALID":
            pads = (0,) * (2 * rank)
        before, after = pads[:rank], pads[rank:]
        lengths = tuple(
            (n + b + a - r) // s + 1 for n, b, a, r, s in zip(shape[2:], before, after, reaches, strides, strict=True)
        )
        return cls(kernel, strides, dilations, before, after, lengths)

    def rows(self, x: Array, indices: Array, groups: int) -> Array:
        framed = padded(x, list(zip(self.before, self.after, strict=True)), 0)
        batch, *starts = np.unravel_index(indices, (x.shape[0], *self.lengths))
        rank = len(self.kernel)
        index: list[Any] = [batch.reshape(-1, *[1] * rank), slice(None)]
        for axis in range(rank):
            offsets = np.arange(self.kernel[axis]) * self.dilations[axis]
            steps = offsets.reshape(*[-1 if i == axis else 1 for i in range(rank)])
            index.append((starts[axis] * self.strides[axis]).reshape(-1, *[1] * rank) + steps)
        # Advanced indexing around a slice puts the slice's axis last: [rows, *kernel, channels].
        found = framed[tuple(index)]
        split = found.reshape(len(indices), prod(self.kernel), groups, -1)
        return np.ascontiguousarray(split.transpose(2, 0, 1, 3)).reshape(groups, len(indices), -1)


def is_large(graph: Graph, *, is_unseen: bool = False) -> bool:
    """Whether `graph` has so many bytes of weights that layers are quantized one at a time."""
    limit = LARGE_UNSEEN if is_unseen else LARGE
    stored = (found.weight.storage for node in graph if (found := layer_of(node)) is not None)
    return sum(each.nbytes for each in stored if each is not None) >= limit


def layer_of(node: Node) -> Layer | None:
    """Return `node` as a layer; `None` if it is none, or its weight is not constant."""
    weight = node.operand(1)
    if node.dialect or weight is None or not _is_parameter(weight):
        return None
    shape = weight.storage.shape if weight.storage is not None else ()
    match node.op_type:
        case "Conv" if len(shape) >= 3:
            return _with_bias(node, "convolution", weight, 0, 1, int(_float_attribute(node, "group", 1)))
        case "ConvTranspose" if len(shape) >= 3:
            return _with_bias(node, "transposed", weight, 1, 0, int(_float_attribute(node, "group", 1)))
        case "Gemm" if _is_affine(node):
            out = 0 if _float_attribute(node, "transB", 0) else 1
            return _with_bias(node, "product", weight, out, 1 - out, 1)
        case "MatMul" if len(shape) == 2 and _rank(node.operands[0]) > 1:
            return _product(node, weight)
        case _:
            return None


def _with_bias(node: Node, kind: Kind, weight: Value, out_axis: int, in_axis: int, groups: int) -> Layer | None:
    bias = node.operand(2)
    if bias is not None and not _is_parameter(bias):
        return None
    return Layer(node, kind, weight, bias, None, out_axis, in_axis, groups)


def _product(node: Node, weight: Value) -> Layer:
    """Return a matrix product as a layer, with an added constant as its bias."""
    result, channels = node.output, weight.storage.shape[1] if weight.storage is not None else 0
    reader = next(iter(result.users), None)
    if reader is not None and len(result.uses) == 1 and reader.op == "Add":
        for value in reader.operands:
            if value is not result and _is_parameter(value) and _shape(value) == (channels,):
                return Layer(node, "product", weight, value, reader, 1, 0, 1)
    return Layer(node, "product", weight, None, None, 1, 0, 1)


def _is_affine(node: Node) -> bool:
    """Whether a Gemm is `a @ b + c` with one addend per column."""
    weight, bias = node.operand(1), node.operand(2)
    if (
        _float_attribute(node, "alpha", 1.0) != 1
        or _float_attribute(node, "transA", 0)
        or weight is None
        or weight.storage is None
    ):
        return False
    columns = weight.storage.shape[0 if _float_attribute(node, "transB", 0) else 1]
    if bias is None:
        return True
    return _float_attribute(node, "beta", 1.0) == 1 and _shape(bias) in ((columns,), (1, columns))


def _is_parameter(value: Value) -> bool:
    """Whether a value is a float constant with available elements."""
    return value.is_constant and value.storage is not None and value.storage.dtype is DType.FLOAT32


def _float_elements(value: Value) -> Array:
    if value.storage is None:
        message = f"%{value.name} has no stored elements"
        raise ValueError(message)
    return np.asarray(value.storage.numpy(), np.float32)


def _shape(value: Value) -> tuple[Dim, ...]:
    return (value.fact.shape or ()) if isinstance(value.fact, TensorFact) else ()


def _rank(value: Value) -> int:
    return len(_shape(value))


def _float_attribute(node: Node, name: str, default: float) -> float:
    found = node.attributes.get(name, default)
    return found if isinstance(found, int | float) else default


def _integers(node: Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    found = node.attributes.get(name)
    return tuple(int(str(x)) for x in found) if isinstance(found, tuple) and found else default
