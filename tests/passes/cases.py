"""Small models, each for one corner of one rule of preparation, with what has to hold of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@dataclass(frozen=True)
class Case:
    name: str
    model: ModelProto
    facts: tuple[str, ...] = ()
    """`no:Op`, `no_deep:Op`, `count:Op=1`, `nodes:3` (at most), `unshared`, `has:domain:Op`."""
    feeds: dict[str, Any] | None = None
    tolerance: float = 1e-4


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Operands and results as words; `_` is an absent one."""
    given = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, given, ["" if n == "_" else n for n in outputs.split()], **attributes)


def info(name: str, shape: Sequence[Any] | None, dtype: int = F) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], constants: dict[str, Any] | None = None):
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    return helper.make_graph(nodes, "case", list(inputs), list(outputs), tensors)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    domains: dict[str, int] | None = None,
) -> ModelProto:
    imports = [helper.make_opsetid(d, v) for d, v in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph(nodes, inputs, outputs, constants), opset_imports=imports, ir_version=8)


def some(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def norm(channels: int, prefix: str = "", dtype: Any = np.float32) -> dict[str, Any]:
    """Operands of a BatchNormalization."""
    random = np.random.default_rng(channels)
    return {
        f"{prefix}scale": random.uniform(0.5, 2, channels).astype(dtype),
        f"{prefix}shift": random.normal(size=channels).astype(dtype),
        f"{prefix}mean": random.normal(size=channels).astype(dtype),
        f"{prefix}var": random.uniform(0.5, 2, channels).astype(dtype),
    }


def bn(x: str, y: str, prefix: str = "", **attributes: Any) -> Any:
    p = prefix
    return node("BatchNormalization", f"{x} {p}scale {p}shift {p}mean {p}var", y, **attributes)


NO_BN = ("no:BatchNormalization",)
SPATIAL = {1: (7,), 2: (7, 6), 3: (5, 4, 6)}
