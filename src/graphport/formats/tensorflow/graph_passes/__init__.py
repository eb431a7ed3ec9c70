"""Passes on graphs that were read from TensorFlow."""
