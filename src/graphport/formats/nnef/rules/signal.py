"""Transforms of signals in NNEF: products with matrices of sines and cosines, and convolutions with rows of these."""

from graphport.ops.decompositions.fourier import dft_by_matrix, stft_by_convolution
from graphport.ops.views.signal import DFTView, STFTView

DFTView.lift("nnef")(dft_by_matrix)
STFTView.lift("nnef")(stft_by_convolution)
