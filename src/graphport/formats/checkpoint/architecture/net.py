"""The vocabulary that architectures are assembled from: canonical operators on weights of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.checkpoint.container.tensors import Transposed
from graphport.ir.graph import Graph, Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import Clip, Gelu, HardSwish, LeakyRelu, Mish, Relu, Sigmoid, Swish, Tanh
from graphport.ops.definitions.arithmetic import Add, Cast, Div, Mul, Pow, Sub
from graphport.ops.definitions.matmul import Gemm, MatMul
from graphport.ops.definitions.normalization.layer import LayerNormalization, RMSNormalization
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.storage import Storage
    from graphport.ops.declare import OpDef

_TANH_GELUS = {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "gelu_fast", "gelu_bloom"}
_PLAIN: dict[str, OpDef] = {
    "hardswish": HardSwish,
    "leaky_relu": LeakyRelu,
    "mish": Mish,
    "relu": Relu,
    "sigmoid": Sigmoid,
    "tanh": Tanh,
}
ACTIVATIONS = sorted(
    {"silu", "swish", "gelu", "gelu_python", "quick_gelu", "relu2", "relu6", "linear"} | _TANH_GELUS | set(_PLAIN)
)
"""Names of activations in transformers."""


class Net:
    """A graph under construction."""

    def __init__(self, name: str, opset: int) -> None:
        self.graph = Graph(name, opsets={"": opset})
        self.build = Builder(Inference(), self.graph)
        self._constants: dict[int, Value] = {}

    def input(self, name: str, dtype: DType, *shape: Dim) -> Value:
        """Add a graph input."""
        return self.graph.add_input(name, TensorFact(dtype, shape))

    def op(self, op_def: OpDef, *operands: Value | None, stem: str = "", **attributes: Any) -> Value:
        """Append an operator and return its first result."""
        self.build.stem = stem or op_def.name.lower()
        return self.build(op_def, *operands, **attributes)

    def weight(self, storage: Storage, name: str) -> Value:
        """Return the constant of a storage, one for each storage."""
        found = self._constants.get(id(storage))
        if found is None:
            found = self._constants[id(storage)] = self.build.constant(storage, name=name)
        return found

    def floats(self, data: object, name: str = "constant") -> Value:
        """Return a float32 constant."""
        return self.build.constant(np.asarray(data, np.float32), DType.FLOAT32, name)

    def integers(self, *data: int) -> Value:
        """Return a vector of int64."""
        return self.build.constant(np.asarray(data, np.int64), DType.INT64, "shape")

    def integer(self, data: int) -> Value:
        """Return an int64 scalar."""
        return self.build.constant(np.asarray(data, np.int64), DType.INT64, "index")

    def linear(self, x: Value, weight: Storage, bias: Storage | None, name: str) -> Value:
        """Return x Wᵀ + b.  Shapes: x [..., in], weight [out, in], bias [out] → [..., out]."""
        y = self.op(MatMul, x, self.weight(transposed(weight), f"{name}.weight"), stem=name)
        return y if bias is None else self.op(Add, y, self.weight(bias, f"{name}.bias"), stem=name)

    def tied_linear(self, x: Value, table: Value, name: str) -> Value:
        """Return x Eᵀ; E is the embedding table, too.  Shapes: x [B, S, H], table [V, H] → [B, S, V]."""
        rows, width = (int(str(dim)) for dim in self.build.dims(table))
        flat = self.op(Reshape, x, self.integers(-1, width), stem=name)
        product = self.op(Gemm, flat, table, transB=1, stem=name)
        lead = self.op(Shape, x, start=0, end=2, stem=name)
        shape = self.op(Concat, lead, self.integers(rows), axis=0, stem=name)
        return self.op(Reshape, product, shape, stem=name)

    def rms_norm(self, x: Value, weight: Storage, epsilon: float, name: str) -> Value:
        """Return x / sqrt(mean(x²) + epsilon) * weight along the last axis."""
        return self.op(RMSNormalization, x, self.weight(weight, f"{name}.weight"), axis=-1, epsilon=epsilon, stem=name)

    def layer_norm(self, x: Value, weight: Storage | Value, bias: Storage | None, epsilon: float, name: str) -> Value:
        """Return the layer normalization along the last axis."""
        scale = weight if isinstance(weight, Value) else self.weight(weight, f"{name}.weight")
        shift = None if bias is None else self.weight(bias, f"{name}.bias")
        return self.op(LayerNormalization, x, scale, shift, axis=-1, epsilon=epsilon, stem=name)

    def activate(self, x: Value, kind: str) -> Value:
        """Return an activation by its name in transformers."""
        if kind in {"silu", "swish"}:
            return self.op(Swish, x)
        if kind in _TANH_GELUS:
            return self.op(Gelu, x, approximate="tanh")
        if kind in {"gelu", "gelu_python"}:
            return self.op(Gelu, x)
        if kind == "quick_gelu":
            return self.op(Mul, x, self.op(Sigmoid, self.scaled(x, 1.702)))
        if kind == "relu2":
            return self.op(Pow, self.op(Relu, x), self.floats(2))
        if kind == "relu6":
            return self.op(Clip, x, self.floats(0), self.floats(6))
        return x if kind == "linear" else self.op(_PLAIN[kind], x)

    def scaled(self, x: Value, factor: float) -> Value:
        """Return x * factor."""
        return x if factor == 1 else self.op(Mul, x, self.floats(factor))

    def divided(self, x: Value, divisor: float) -> Value:
        """Return x / divisor."""
        return x if divisor == 1 else self.op(Div, x, self.floats(divisor))

    def softcapped(self, x: Value, cap: float) -> Value:
        """Return cap * tanh(x / cap)."""
        return self.scaled(self.op(Tanh, self.divided(x, cap)), cap) if cap else x

    def add(self, x: Value, y: Value) -> Value:
        """Return x + y."""
        return self.op(Add, x, y)

    def subtract(self, x: Value, y: Value) -> Value:
        """Return x - y."""
        return self.op(Sub, x, y)

    def cast(self, x: Value, dtype: DType) -> Value:
        """Return a value in another element type."""
        return x if x.dtype is dtype else self.op(Cast, x, to=dtype)

    def reshape(self, x: Value, *shape: int) -> Value:
        """Return a value in another shape; 0 keeps a dim and -1 is inferred."""
        return self.op(Reshape, x, self.integers(*shape))

    def transpose(self, x: Value, *perm: int) -> Value:
        """Return a value with its axes permuted."""
        return self.op(Transpose, x, perm=perm)

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        """Return a value with dims of 1 inserted."""
        return self.op(Unsqueeze, x, self.integers(*axes))

    def split_heads(self, x: Value, heads: int, size: int) -> Value:
        """Shapes: [B, S, heads * size] → [B, heads, S, size]."""
        return self.transpose(self.reshape(x, 0, 0, heads, size), 0, 2, 1, 3)

    def join_heads(self, x: Value, width: int) -> Value:
        """Shapes: [B, heads, S, size] → [B, S, heads * size]."""
        return self.reshape(self.transpose(x, 0, 2, 1, 3), 0, 0, width)

    def finish(self, outputs: Sequence[tuple[str, Value]]) -> Graph:
        """Name the outputs and return the graph."""
        for name, value in outputs:
            self.graph.rename(value, name)
        self.graph.set_outputs([value for _, value in outputs])
        return self.graph


def transposed(storage: Storage) -> Storage:
    """Return a matrix with its axes exchanged."""
    if isinstance(storage, Transposed):
        return storage.of
    return Transposed(storage)
