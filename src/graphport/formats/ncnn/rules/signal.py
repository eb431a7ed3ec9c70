"""Transforms of signals in ncnn: products with matrices of sines and cosines."""

from graphport.ops.decompositions.fourier import dft_by_matrix, stft_by_convolution
from graphport.ops.views.signal import DFTView, STFTView

DFTView.lift("ncnn")(dft_by_matrix)
STFTView.lift("ncnn")(stft_by_convolution)
