"""Passes on whole graphs between the dialect of Caffe and canonical operators."""
