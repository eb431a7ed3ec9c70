"""Targets of exported programs of PyTorch, and what binds a function's operands for PNNX too."""
