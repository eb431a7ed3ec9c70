"""Layers of Caffe."""
