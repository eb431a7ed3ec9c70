"""Colours that remain distinguishable with colour blindness and in greyscale."""

from __future__ import annotations

SNR = ((60.0, "#f4f1e6"), (40.0, "#fee391"), (20.0, "#fe9929"), (10.0, "#cc4c02"), (float("-inf"), "#662506"))
"""Minimum SNR in dB and the colour of each step, darker for a worse value (ColorBrewer YlOrBr)."""
UNMEASURED = "#ffffff"
_DARK = {"#cc4c02", "#662506"}
FAMILIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#555555")
"""Colours of operator families (Okabe and Ito 2008), assigned in order of occurrence."""


def snr_color(decibels: float | None, *, passed: bool) -> str:
    """Return the colour of a value. Without an SNR the value is either equal or entirely different."""
    if decibels is None:
        return SNR[0][1] if passed else SNR[-1][1]
    return next(color for least, color in SNR if decibels >= least)


def text_color(background: str) -> str:
    """Return the text colour for a background colour."""
    return "#ffffff" if background in _DARK else "#1b1b1b"
