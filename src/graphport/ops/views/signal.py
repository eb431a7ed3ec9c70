"""Views of the pages of signal; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class DFTView(View):
    """A node of `DFT`."""

    operator = "DFT"

    input: Value
    dft_length: Value | None = None
    axis: Value | None = None
    _: KW_ONLY
    inverse: int = 0
    onesided: int = 0


@dataclass(slots=True, eq=False, repr=False)
class MelWeightMatrixView(View):
    """A node of `MelWeightMatrix`."""

    operator = "MelWeightMatrix"

    num_mel_bins: Value
    dft_length: Value
    sample_rate: Value
    lower_edge_hertz: Value
    upper_edge_hertz: Value
    _: KW_ONLY
    output_datatype: DType = DType.FLOAT32


@dataclass(slots=True, eq=False, repr=False)
class STFTView(View):
    """A node of `STFT`."""

    operator = "STFT"

    signal: Value
    frame_step: Value
    window: Value | None = None
    frame_length: Value | None = None
    _: KW_ONLY
    onesided: int = 1
