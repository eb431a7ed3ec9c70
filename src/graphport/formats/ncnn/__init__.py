"""ncnn: the text or binary list of layers, and the file of their weights.

A raw graph speaks `ncnn.Convolution`: the type of a layer is the word, its parameters are attributes called by their
numbers (`"0"`, `"11"`), its weights attributes `"@0"`, `"@1"`, … in the order in which the layer loads them. Layers
`Input` are the inputs of the graph; blobs that nobody reads are its outputs.
"""

from graphport.formats.ncnn.reader import read, recognizes, versions
from graphport.formats.ncnn.table import Scales, read_table, write_table
from graphport.formats.ncnn.writer import write

__all__ = ["Scales", "read", "read_table", "recognizes", "versions", "write", "write_table"]
