"""Activations."""

from graphport_mlp.rules import ROWS

ROWS.lower("""
relu(x) <-> Relu(x)
sigmoid(x) <-> Sigmoid(x)
""")
