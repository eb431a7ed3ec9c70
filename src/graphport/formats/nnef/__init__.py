"""NNEF 1.0 in both editions: texts, tensor files, folders and archives."""

from graphport.formats.nnef.container import recognizes
from graphport.formats.nnef.original import versions
from graphport.formats.nnef.reader import read
from graphport.formats.nnef.writer import write

__all__ = ["read", "recognizes", "versions", "write"]
