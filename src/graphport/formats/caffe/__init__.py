"""Caffe: texts of networks (`.prototxt`) of every version, and files of weights (`.caffemodel`).

A raw graph speaks `caffe.Convolution`; what a file says besides is in notes.
"""

from __future__ import annotations

from graphport.formats.caffe.reader import read, recognizes, versions
from graphport.formats.caffe.writer import write

__all__ = ["read", "recognizes", "versions", "write"]
