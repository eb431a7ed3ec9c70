"""Transforms of signals in ncnn: products with matrices of sines and cosines."""

from graphport.ops.decompositions.fourier import dft_by_matrix, stft_by_convolution
from graphport.ops.views.signal import DFTView, STFTView

DFTView.export_rule("ncnn")(dft_by_matrix)
STFTView.export_rule("ncnn")(stft_by_convolution)
