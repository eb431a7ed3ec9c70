"""Qparams as text next to a float model, for tools that quantize it themselves and accept qparams.

| form | read by | content |
|---|---|---|
| `tensorrt` | TensorRT, as a calibration cache | a scale per activation: a float32 in hexadecimal digits |
| `qnn` | converters of SNPE and QNN (`--quantization_overrides`) | qparams of activations and weights, JSON |
| `rknn` | RKNN-Toolkit2, second step of hybrid quantization | qparams of activations, float layers, YAML |
| `mnn` | scripts that read PPQ's file for MNN | scales of the operands and results of layers, JSON |

The weights of the float model are already rounded: quantizing them again changes nothing.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir import rewrite
from graphport.ops.definitions import quantization as op_defs
from graphport.passes.substitution import add_constant
from graphport.runtimes.target import LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Graph, Node, Value

Array: TypeAlias = "np.ndarray[Any, Any]"

_CACHE = "TRT-100000-EntropyCalibration2"
"""Version and algorithm in the cache: some builders ignore caches of another major version."""
_ENDINGS = {"tensorrt": ".cache", "qnn": ".encodings", "rknn": ".quantization.cfg", "mnn": ".mnn.json"}
_ENDS = ("_codes", "_rounded")


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Qparams: `scale * (code - zero)`, per-tensor or per-channel."""

    dtype: DType
    scale: Array
    zero: Array

    @property
    def ends(self) -> tuple[int, int]:
        """Return the minimum and maximum code."""
        half = 1 << (self.dtype.bits - 1)
        return (-half, half - 1) if self.dtype.kind == "i" else (0, 2 * half - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A node with a quantized operand: names of its operands and results."""

    operator: str
    operand: str
    result: str


@dataclass(slots=True, eq=False)
class Encodings:
    """Qparams of a quantized graph by names of the float tensors, and the results of float layers."""

    activations: dict[str, Steps] = field(default_factory=dict[str, Steps])
    weights: dict[str, Steps] = field(default_factory=dict[str, Steps])
    layers: list[Layer] = field(default_factory=list[Layer])
    real: list[str] = field(default_factory=list[str])


def encodings_of(graph: Graph) -> Encodings:
    """Collect the qparams of a QDQ graph."""
    found = Encodings()
    for node in graph:
        if node.dialect:
            continue
        if node.op == "QuantizeLinear":
            found.activations[_real_name(node.operands[0])] = _steps(node)
        elif node.op == "DequantizeLinear" and node.operands[0].is_constant and _bits(node) <= _BYTE:
            found.weights[_name(node.operands[0])] = _steps(node)
        elif node.op in LAYERS:
            made = [None if value is None else value.producer for value in (node.operand(0), node.operand(1))]
            rounded = [each for each in made if each is not None and each.op == "DequantizeLinear"]
            if len(rounded) < len(made):
                found.real.append(_real_name(node.output))
                continue
            source = rounded[0].operands[0].producer
            operand = rounded[0].output if source is None else source.operands[0]
            found.layers.append(Layer(node.op, _real_name(operand), _real_name(node.output)))
    return found


_BYTE = 8


def without_roundings(graph: Graph) -> Graph:
    """Return a float copy of `graph`; constants are the dequantized codes.

    Before  y = Conv(DQ(Q(x)), DQ(w_codes), DQ(b_codes))
    After   y = Conv(x, w, b)
    """
    twin = rewrite.copy(graph)
    for node in list(twin):
        if node.dialect or node.op != "DequantizeLinear":
            continue
        codes, maker = node.operands[0], node.operands[0].producer
        if codes.is_constant:
            stored = _decoded(node)
            name = _name(codes)
            rewrite.replace(node.output, add_constant(twin, stored, name))
        elif maker is not None and maker.op == "QuantizeLinear":
            rewrite.replace(node.output, maker.operands[0])
    rewrite.remove_dead(twin)
    return twin


def ending(form: str) -> str:
    """Return the file extension of a form."""
    return _ENDINGS[form]


def text_of(form: str, graph: Graph) -> str:
    """Return the qparams of a QDQ graph in one of the forms."""
    return _FORMS[form](encodings_of(graph))


def _tensorrt(of: Encodings) -> str:
    lines = [f"{name}: {struct.pack('>f', float(x.scale)).hex()}" for name, x in of.activations.items()]
    return "\n".join([_CACHE, *lines]) + "\n"


def _qnn(of: Encodings) -> str:
    def encoding_records(x: Steps) -> list[dict[str, object]]:
        low, high = x.ends
        is_symmetric = x.dtype.kind == "i" and not np.any(x.zero)
        scales: list[float] = np.asarray(x.scale, np.float64).reshape(-1).tolist()
        zeros: list[int] = np.broadcast_to(np.asarray(x.zero).reshape(-1), len(scales)).tolist()
        return [
            {
                "bitwidth": x.dtype.bits,
                "dtype": "int",
                "is_symmetric": str(is_symmetric),
                "max": scale * (high - zero),
                "min": scale * (low - zero),
                # Codes of Qualcomm's tools start at 0, and the offset is added to them.
                "offset": low - zero,
                "scale": scale,
            }
            for scale, zero in zip(scales, zeros, strict=True)
        ]

    stated = {
        "version": "0.6.1",
        "activation_encodings": {name: encoding_records(x) for name, x in of.activations.items()},
        "param_encodings": {name: encoding_records(x) for name, x in of.weights.items()},
    }
    return json.dumps(stated, indent=1) + "\n"


def _rknn(of: Encodings) -> str:
    def block(name: str, x: Steps) -> list[str]:
        low, high = x.ends
        zero = int(x.zero)
        numbers = {
            "min": float(x.scale) * (low - zero),
            "max": float(x.scale) * (high - zero),
            "scale": float(x.scale),
            "zero_point": zero,
        }
        return [
            f"    {json.dumps(name)}:",
            "        qtype: asymmetric_quantized",
            "        qmethod: layer",
            f"        dtype: {x.dtype}",
            *(f"        {key}: [{number!r}]" for key, number in numbers.items()),
        ]

    real = [f"    {json.dumps(name)}: float16" for name in of.real]
    lines = ["custom_quantize_layers:" + ("" if real else " {}"), *real, "quantize_parameters:"]
    return "\n".join([*lines, *(line for name, x in of.activations.items() for line in block(name, x))]) + "\n"


def _mnn(of: Encodings) -> str:
    stated: dict[str, float] = {}
    for layer in of.layers:
        if layer.operand in of.activations:
            stated[f"{layer.result} input_tensor_0"] = float(of.activations[layer.operand].scale)
        if layer.result in of.activations:
            stated[f"{layer.result} output_tensor_0"] = float(of.activations[layer.result].scale)
    return json.dumps(stated, indent=1) + "\n"


_FORMS: Mapping[str, Callable[[Encodings], str]] = {"tensorrt": _tensorrt, "qnn": _qnn, "rknn": _rknn, "mnn": _mnn}


def _steps(node: Node) -> Steps:
    scale = _float_elements(node.operands[1])
    given = node.operand(2)
    zero = np.zeros(np.shape(scale), np.int64) if given is None else _float_elements(given).astype(np.int64)
    stored = node.operands[2].storage if given is not None else None
    return Steps(DType.UINT8 if stored is None else stored.dtype, scale, zero)


def _bits(node: Node) -> int:
    stored = node.operands[0].storage
    return _BYTE if stored is None else stored.dtype.bits


def _float_elements(value: Value) -> Array:
    return np.zeros(()) if value.storage is None else np.asarray(value.storage.numpy())


def _real_name(value: Value) -> str:
    """Return the name of a value in the float model: an output has the name of its quantized form."""
    for reader in value.users:
        for last in reader.output.users if reader.op == "QuantizeLinear" else ():
            if last.op == "DequantizeLinear" and last.output.is_output:
                return last.output.name
    return value.name


def _name(codes: Value) -> str:
    """Return the name of the float constant of `codes`."""
    name = codes.name
    for end in _ENDS:
        name = name.removesuffix(end)
    return name


def _decoded(node: Node) -> Array:
    codes, scale = _float_elements(node.operands[0]), _float_elements(node.operands[1])
    zero = None if node.operand(2) is None else _float_elements(node.operands[2])
    axis, block = node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    found = op_defs.DequantizeLinear.function(codes, scale, zero, axis=axis, block_size=block)
    return np.asarray(found, np.float32)
