"""Colours that people with any colour vision tell apart, and that stay apart in grey."""

from __future__ import annotations

SNR = ((60.0, "#f4f1e6"), (40.0, "#fee391"), (20.0, "#fe9929"), (10.0, "#cc4c02"), (float("-inf"), "#662506"))
"""Decibels from which on a value has a colour, the darker the worse (ColorBrewer's YlOrBr)."""
UNMEASURED = "#ffffff"
_DARK = {"#cc4c02", "#662506"}
FAMILIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#555555")
"""Of families of operators (Okabe and Ito 2008), in the order in which a model has them."""


def of_snr(decibels: float | None, *, passed: bool) -> str:
    """The colour of a value; where there are no decibels, nothing or everything differs."""
    if decibels is None:
        return SNR[0][1] if passed else SNR[-1][1]
    return next(color for least, color in SNR if decibels >= least)


def ink(background: str) -> str:
    """The colour of text that is read on `background`."""
    return "#ffffff" if background in _DARK else "#1b1b1b"
