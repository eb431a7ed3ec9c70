"""Transforms of signals in NNEF: products with matrices of sines and cosines."""

from graphport.ops.dialects.fourier import dft_by_matrix
from graphport.ops.views.signal import DFTView

DFTView.lift("nnef")(dft_by_matrix)
