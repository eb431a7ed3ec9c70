"""ONNX Runtime's own domain of ONNX, `com.microsoft`."""
