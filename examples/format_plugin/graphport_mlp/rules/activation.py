"""Activations."""

from graphport_mlp.rules import RULES

RULES.lower("""
relu(x) <-> Relu(x)
sigmoid(x) <-> Sigmoid(x)
""")
