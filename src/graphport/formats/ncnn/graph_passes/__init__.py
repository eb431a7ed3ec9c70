"""Passes on whole graphs between the dialect of ncnn and canonical operators."""
