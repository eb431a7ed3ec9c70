"""Scikit-learn's estimators as ONNX has them: words of a domain of its own, which stay as they are."""
