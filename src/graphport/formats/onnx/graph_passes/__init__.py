"""Passes on whole graphs between the dialect of ONNX and canonical operators."""
