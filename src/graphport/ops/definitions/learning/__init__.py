"""Classical machine learning: operators of ai.onnx.ml without a canonical form; they are not converted."""
