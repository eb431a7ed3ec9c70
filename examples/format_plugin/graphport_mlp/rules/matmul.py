"""Matrix products."""

from graphport_mlp.rules import RULES

RULES.lower("""
dense(x, weight, bias) -> Add(MatMul(x, weight), bias)
matmul(x, weight) <-> MatMul(x, weight)
add(x, bias) <-> Add(x, bias)
""")
