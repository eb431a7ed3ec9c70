"""Older opsets of ONNX."""
