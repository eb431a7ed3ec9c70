"""Passes on whole graphs between the dialect of PNNX and canonical operators."""
