"""The dialects that have rules and the package names of these rules (strings: formats are above this package)."""

from __future__ import annotations

RULES: dict[str, str] = {
    "ai_onnx_ml": "graphport.formats.onnx.rules.ai_onnx_ml",
    "ai_onnx_preview": "graphport.formats.onnx.rules.ai_onnx_preview",
    "ai_onnx_preview_training": "graphport.formats.onnx.rules.ai_onnx_preview_training",
    "caffe": "graphport.formats.caffe.rules",
    "com_microsoft": "graphport.formats.onnx.rules.com_microsoft",
    "expression": "graphport.ops.expression_rules",
    "keras": "graphport.formats.keras.rules",
    "ncnn": "graphport.formats.ncnn.rules",
    "nnef": "graphport.formats.nnef.rules",
    "onnx": "graphport.formats.onnx.rules",
    "onnx_future": "graphport.formats.onnx.rules.onnx_future",
    "openvino": "graphport.formats.openvino.rules",
    "pnnx": "graphport.formats.pytorch.rules.functions",
    "pytorch": "graphport.formats.pytorch.rules",
    "stablehlo": "graphport.formats.stablehlo.rules",
    "tensorflow": "graphport.formats.tensorflow.rules",
    "tflite": "graphport.formats.tflite.rules",
    "tract": "graphport.formats.nnef.rules.tract",
}
"""Packages of rules by dialect; a dot in the name of a dialect is `_` here."""
