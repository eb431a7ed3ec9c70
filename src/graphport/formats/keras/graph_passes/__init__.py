"""Passes on whole graphs that were read from Keras files."""
