"""Quantize a graph: placement, qparams, and reduction of quantization noise."""
