"""Views of the pages of signal; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.core.dtypes import DType
from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class DFTView(View[T]):
    """A node of `DFT`."""

    operator = "DFT"

    input: T
    dft_length: T | None = None
    axis: T | None = None
    _: KW_ONLY
    inverse: int = 0
    onesided: int = 0


@dataclass(slots=True, eq=False, repr=False)
class MelWeightMatrixView(View[T]):
    """A node of `MelWeightMatrix`."""

    operator = "MelWeightMatrix"

    num_mel_bins: T
    dft_length: T
    sample_rate: T
    lower_edge_hertz: T
    upper_edge_hertz: T
    _: KW_ONLY
    output_datatype: DType = DType.FLOAT32


@dataclass(slots=True, eq=False, repr=False)
class STFTView(View[T]):
    """A node of `STFT`."""

    operator = "STFT"

    signal: T
    frame_step: T
    window: T | None = None
    frame_length: T | None = None
    _: KW_ONLY
    onesided: int = 1
