"""Which standard texts tract interprets correctly, and reasons why it does not accept others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.formats.nnef.container.build import DIALECT
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.quantized import quantization_of
from graphport.formats.nnef.container.syntax import Edition

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.diagnostics import Span
    from graphport.ir.graph import Graph, Node

_LACKING = frozenset(
    [
        *("constant", "update", "cast", "gather", "split", "rcp"),
        *("gelu", "selu", "silu"),
        *("argmax_pool", "sample", "desample", "nearest_upsample", "nearest_downsample", "area_downsample"),
        *("multilinear_upsample", "max_roi_pool", "avg_roi_pool", "roi_resample", "max_roi_align", "avg_roi_align"),
        *("linear_quantize", "logarithmic_quantize", "min_max_linear_quantize", "zero_point_linear_quantize"),
    ]
)
"""Standard operations that tract 0.23 has no definition of without an extension, or a dead one."""
_NO_WORD = "the operation requires a registry"
_NOTHING = "a window contains only ignored padding"
_OVER_SPACE = "it does not support windows over batch and channels"
_BORDERS = frozenset(("constant", "ignore"))


class NotTaken(NamedTuple):
    """A feature that tract does not support: its description, the reason, and its location."""

    what: str
    reason: str
    origin: Span | None


def not_taken(graph: Graph) -> list[NotTaken]:
    """Return what tract would refuse or compute differently in `graph`, each subject once per reason."""
    found = {
        (node.op_type, reason): NotTaken(node.op_type, reason, node.origin)
        for node in graph
        if (reason := _reason(node)) is not None
    }
    quantized = next((value for value in graph.values() if quantization_of(value) is not None), None)
    if quantized is not None:
        reason = "it computes on quantized integers, standard NNEF on dequantized values"
        found["", reason] = NotTaken(f"the quantization of '{quantized.name}'", reason, quantized.origin)
    return list(found.values())


def findings_of(found: list[NotTaken], severity: Severity) -> list[Diagnostic]:
    """Return a diagnostic NNEF0774 for each unsupported feature."""
    remedy = "choose the flavour 'tract'"
    return [
        Diagnostic("NNEF0774", f"tract does not accept {each.what}: {each.reason}", each.origin, remedy, severity)
        for each in found
    ]


def _reason(node: Node) -> str | None:
    if node.dialect != DIALECT or node.op_type not in standard(Edition.FINAL):
        return "it is not an operation of the standard"
    if node.op_type in _LACKING:
        return _NO_WORD
    rule = _RULES.get(node.op_type)
    return None if rule is None else rule(node)


def _integers_of(node: Node, name: str) -> tuple[Any, ...]:
    found = node.attributes.get(name)
    return found if isinstance(found, tuple) else ()


def _pairs(node: Node) -> tuple[tuple[int, int], ...]:
    return cast("tuple[tuple[int, int], ...]", _integers_of(node, "padding"))


def _pad(node: Node) -> str | None:
    if any(min(pair) < 0 for pair in _pairs(node)):
        return "negative padding is not supported"
    is_taken = node.attributes.get("border", "constant") in ("constant", "reflect")
    return None if is_taken else "the border mode is not supported"


def _slice(node: Node) -> str | None:
    steps = _integers_of(node, "stride")
    return "negative strides are not supported" if any(isinstance(step, int) and step < 0 for step in steps) else None


def _conv(node: Node) -> str | None:
    if node.attributes.get("border", "constant") != "constant":
        return "only zero padding is supported"
    return "negative padding is not supported" if any(min(pair) < 0 for pair in _pairs(node)) else None


def _deconv(node: Node) -> str | None:
    del node
    return "its filter has another channel order"


def _window(node: Node) -> str | None:
    if len(_integers_of(node, "size")) < 3:
        return _OVER_SPACE
    still = ((_integers_of(node, "size"), 1), (_integers_of(node, "stride"), 1), (_integers_of(node, "dilation"), 1))
    if any(extent != own for given, own in still for extent in given[:2]):
        return _OVER_SPACE
    pairs = _pairs(node)
    if any(pair != (0, 0) for pair in pairs[:2]):
        return _OVER_SPACE
    if any(min(pair) < 0 for pair in pairs):
        return "negative padding is not supported"
    if node.attributes.get("border") == "ignore" and overhangs(node):
        return _NOTHING
    return None if node.attributes.get("border", "constant") in _BORDERS else "the border mode is not supported"


def overhangs(node: Node) -> bool:
    """Whether a window may lie entirely in the padding, where readers disagree."""
    size, dilation = (
        _integers_of(node, "size"),
        _integers_of(node, "dilation") or (1,) * len(_integers_of(node, "size")),
    )
    reach = [(extent - 1) * step + 1 for extent, step in zip(size, dilation, strict=True)]
    return any(max(pair) >= length for pair, length in zip(_pairs(node), reach, strict=False))


def _indexed(node: Node) -> str | None:
    indices = node.outputs[1] if len(node.outputs) > 1 else None
    if indices is not None and (indices.uses or indices.is_output):
        return "its indices are relative to the plane, in the standard to the window"
    return _window(node)


def _normalization(node: Node) -> str | None:
    size = _integers_of(node, "size")
    return _OVER_SPACE if any(extent != 1 for extent in size[:2]) else None


_RULES: dict[str, Callable[[Node], str | None]] = {
    "pad": _pad,
    "slice": _slice,
    "conv": _conv,
    "separable_conv": _conv,
    "deconv": _deconv,
    "separable_deconv": _deconv,
    "box": _window,
    "max_pool": _window,
    "avg_pool": _window,
    "rms_pool": _window,
    "max_pool_with_index": _indexed,
    "local_response_normalization": _normalization,
    "local_mean_normalization": _normalization,
    "local_variance_normalization": _normalization,
    "local_contrast_normalization": _normalization,
}
