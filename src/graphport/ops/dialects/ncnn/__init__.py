"""Layers of ncnn."""
