"""Passes on whole graphs between the dialect of NNEF and tract and canonical operators."""
