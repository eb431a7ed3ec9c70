"""Decompositions of operators into simpler canonical operators, for dialects without them."""
