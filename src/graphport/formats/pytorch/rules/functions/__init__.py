"""Import and export rules of PNNX op types: modules and functions of PyTorch by their Python names."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True, has_complex=True, has_literals=True)
