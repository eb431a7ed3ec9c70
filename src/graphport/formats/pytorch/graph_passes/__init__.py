"""Passes on whole graphs between the dialect of PyTorch and canonical operators."""
