"""Classic models of ONNX, `ai.onnx.ml`: meanings without pages."""
