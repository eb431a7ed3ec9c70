"""Fourier transforms in NNEF: products with sine and cosine matrices, and convolutions with their rows."""

from graphport.ops.decompositions.fourier import dft_by_matrix, stft_by_convolution
from graphport.ops.views.signal import DFTView, STFTView

DFTView.export_rule("nnef")(dft_by_matrix)
STFTView.export_rule("nnef")(stft_by_convolution)
