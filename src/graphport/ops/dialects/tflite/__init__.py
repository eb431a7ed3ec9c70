"""Operators of TFLite."""
