"""Publication figures of a report, drawn with matplotlib (an extra)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.packages import install, is_there
from graphport.reports.colors import FAMILIES
from graphport.reports.views import FIGURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_COLUMN = 3.5
"""Width of a column of a two-column journal, in inches."""
_BEST_DB = 150.0
"""SNR at which equal values are drawn, in dB: about the precision of float32."""
_MOST_BARS = 20
_BLUE, _ORANGE, _GREY = FAMILIES[0], FAMILIES[1], FAMILIES[-1]


def figure(document: Mapping[str, Any], kind: str, *, width: float = _COLUMN) -> Any:
    """Return a `matplotlib.figure.Figure` of one of `FIGURES`; its `savefig` writes PDF, PNG, SVG and others.

    Args:
        document: the document of a report.
        kind: `error`: SNR of each value along the network; `noise`: SNR of each quantized layer alone; `front`: latency
            and noise of the quantization plans; `work`: multiply-accumulates by operator.
        width: width in inches; the height follows.

    Raises:
        DiagnosticError: IO0010: matplotlib is not installed; IO0011: the report has no data for this figure.
        ValueError: `kind` is unknown.
    """
    if kind not in _DRAWN:
        message = f"unknown figure {kind!r}; expected: {', '.join(FIGURES)}"
        raise ValueError(message)
    if not is_there("matplotlib"):
        message = "figures require matplotlib, which is not installed"
        raise DiagnosticError(Diagnostic("IO0010", message, None, install("matplotlib")))
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"}
    library: Any = mpl
    with library.rc_context(settings):
        drawn = Figure(figsize=(width, width * 0.62), layout="constrained")
        _DRAWN[kind](document, drawn.add_subplot())
    return drawn


def _error(document: Mapping[str, Any], axes: Any) -> None:
    errors = _of(document.get("errors"), "error", "compare two models")
    levels = [_BEST_DB if each.get("snr_db") is None else min(each["snr_db"], _BEST_DB) for each in errors]
    axes.plot(range(len(levels)), levels, color=_BLUE, linewidth=1, marker=".", markersize=3)
    first = next(iter(document.get("first") or ()), None)
    if first is not None:
        axes.plot([first], [levels[first]], "o", color=_ORANGE, markersize=5)
        axes.annotate(errors[first]["name"], (first, levels[first]), (4, 4), textcoords="offset points")
    axes.set(xlabel="value, in the order of computation", ylabel="SNR (dB)")


def _noise(document: Mapping[str, Any], axes: Any) -> None:
    layers = _of(_quantization(document).get("layers"), "noise", "report on a quantized model")
    known = sorted((each["own_db"], each["name"]) for each in layers if each.get("own_db") is not None)[:_MOST_BARS]
    axes.barh([name for _, name in known], [level for level, _ in known], color=_BLUE)
    axes.invert_yaxis()
    axes.set(xlabel="SNR of the layer alone (dB)")


def _front(document: Mapping[str, Any], axes: Any) -> None:
    quantization = _quantization(document)
    points = _of(quantization.get("front"), "front", "quantize with --front")
    plan: dict[str, Any] = quantization.get("chosen") or {}
    chosen = plan.get("point")
    is_timed = all(each.get("latency") is not None for each in points)
    size = "latency" if is_timed else "bytes"
    axes.plot([each[size] for each in points], [each["snr_db"] for each in points], ".-", color=_GREY, linewidth=1)
    for each in points:
        if each.get("point") == chosen:
            axes.plot([each[size]], [each["snr_db"]], "o", color=_ORANGE)
    axes.set(xlabel="time beside the source" if is_timed else "bytes", ylabel="SNR (dB)")


def _work(document: Mapping[str, Any], axes: Any) -> None:
    counts: Counter[str] = Counter()
    for node in document["models"][0]["nodes"]:
        if isinstance(node.get("macs"), int):
            counts[node["op"]] += node["macs"]
    _of(counts, "work", "report on a model whose shapes are known")
    found = counts.most_common(_MOST_BARS)
    axes.barh([op for op, _ in found], [count for _, count in found], color=_BLUE)
    axes.invert_yaxis()
    axes.set(xlabel="multiply-accumulates", xscale="log")


def _quantization(document: Mapping[str, Any]) -> dict[str, Any]:
    return document.get("quantization") or {}


def _of(found: Any, kind: str, remedy: str) -> Any:
    if not found:
        raise DiagnosticError(Diagnostic("IO0011", f"the report has no data for the figure {kind!r}", None, remedy))
    return found


_DRAWN: Mapping[str, Callable[[Mapping[str, Any], Any], None]] = {
    "error": _error,
    "noise": _noise,
    "front": _front,
    "work": _work,
}
