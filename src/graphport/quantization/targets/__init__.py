"""What the runtimes that a model may be quantized for can do; data only."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.quantization.targets.encodings import MNN, QNN, RKNN, TENSORRT_CACHE
from graphport.quantization.targets.ncnn import NCNN
from graphport.quantization.targets.nnef import NNEF
from graphport.quantization.targets.onnxruntime import ONNXRUNTIME
from graphport.quantization.targets.openvino import OPENVINO
from graphport.quantization.targets.tensorrt import TENSORRT
from graphport.quantization.targets.tflite import TFLITE
from graphport.quantization.targets.tract import TRACT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.quantization.targets.target import Target

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (ONNXRUNTIME, OPENVINO, TENSORRT, NCNN, NNEF, TRACT, TFLITE, TENSORRT_CACHE, QNN, RKNN, MNN)
    }
)


def target(name: str) -> Target:
    """The target of that name.

    Raises:
        DiagnosticError: QUANT0005 there is none.
    """
    found = TARGETS.get(name)
    if found is None:
        message = f"there is no target {name!r}"
        raise DiagnosticError(Diagnostic("QUANT0005", message, None, f"targets: {', '.join(TARGETS)}"))
    return found
