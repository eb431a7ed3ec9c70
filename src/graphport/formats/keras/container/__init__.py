"""Keras files as graphs of the dialect `keras`."""
