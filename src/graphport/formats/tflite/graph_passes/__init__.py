"""Passes on whole graphs between the dialect of TFLite and canonical operators."""
