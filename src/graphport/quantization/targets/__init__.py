"""Capabilities of the runtimes that a model may be quantized for; data only."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.formats.ncnn.target import NCNN
from graphport.formats.nnef.target import NNEF
from graphport.formats.nnef.tract_target import TRACT
from graphport.formats.onnx.target import ONNXRUNTIME
from graphport.formats.openvino.target import OPENVINO
from graphport.formats.tflite.target import TFLITE
from graphport.quantization.targets.encodings import MNN, QNN, RKNN, TENSORRT_CACHE
from graphport.quantization.targets.tensorrt import TENSORRT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.runtimes.target import Target

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (ONNXRUNTIME, OPENVINO, TENSORRT, NCNN, NNEF, TRACT, TFLITE, TENSORRT_CACHE, QNN, RKNN, MNN)
    }
)

_MODULES = {
    "onnxruntime": "graphport.formats.onnx.target",
    "openvino": "graphport.formats.openvino.target",
    "ncnn": "graphport.formats.ncnn.target",
    "nnef": "graphport.formats.nnef.target",
    "tract": "graphport.formats.nnef.tract_target",
    "tflite": "graphport.formats.tflite.target",
    "tensorrt": "graphport.quantization.targets.tensorrt",
}


def module_of(target: Target) -> str:
    """Return the module of a target, whose docstring describes it."""
    return _MODULES.get(target.name, "graphport.quantization.targets.encodings")


def target(name: str) -> Target:
    """Return the target of that name.

    Raises:
        DiagnosticError: QUANT0005 there is none.
    """
    found = TARGETS.get(name)
    if found is None:
        message = f"unknown target {name!r}"
        raise DiagnosticError(Diagnostic("QUANT0005", message, None, f"targets: {', '.join(TARGETS)}"))
    return found
