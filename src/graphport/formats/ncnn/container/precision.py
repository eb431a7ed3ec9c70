"""Precision of layers: parameter 31 disables for a layer what runtime options permit.

The runtime converts 16-bit blobs to float32 only before a layer whose options permit 16 bits and which does not support
them. Before a layer with disabled types, a `DeepCopy` is such a layer.
"""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.ir.graph import Graph

_MASK = "31"
_HALVES, _BRAINS = 0b011, 0b100
_FORBIDDEN = {"f32": _HALVES | _BRAINS, "f16": _BRAINS, "bf16": _HALVES}
"""Bits that disable float16 arithmetic, float16 storage and bfloat16 storage for a layer type."""
_ALIKE = frozenset(("Split", "Noop"))
"""Layers with the precision of the previous layer."""


def parsed(stated: Iterable[str], path: str) -> dict[str, str]:
    """Parse strings `LAYER=TYPE` to a mapping from layer name or pattern to type.

    Raises:
        DiagnosticError: NCNN0307 a string has no layer, or another type than `f32`, `f16` and `bf16`.
    """
    if isinstance(stated, str):
        stated = [stated]
    texts = (str(each) for each in stated)
    found = {name: kind for name, _, kind in (text.rpartition("=") for text in texts)}
    for name, kind in found.items():
        if not name or kind not in _FORBIDDEN:
            quantized = "for int8, run graphport quantize --target ncnn --quantize LAYER"
            remedy = quantized if kind == "int8" else "for example: conv*=f32"
            message = f"{name}={kind}: expected LAYER=TYPE with the type {' or '.join(_FORBIDDEN)}"
            raise DiagnosticError(Diagnostic("NCNN0307", message, Span(Source(path)), remedy))
    return found


def masked(graph: Graph, wanted: Mapping[str, str], path: str) -> tuple[Graph, dict[str, str]]:
    """Return a copy of a dialect graph with parameter 31 set for the layers in `wanted`, and the type of each of them.

    The last pattern that matches a layer applies. 16-bit blobs are converted to float32 before a float32 layer.

    Raises:
        DiagnosticError: NCNN0307 a pattern matches no layer, NCNN0308 a layer has int8 weights.
    """
    twin = rewrite.copy(graph)
    names = [node.name or node.results[0].name for node in twin if node.results]
    findings: list[Diagnostic] = []
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = get_close_matches(pattern, names, 3)
            remedy = f"did you mean {' or '.join(near)}?" if near else "list the layers: graphport inspect FILE"
            findings.append(Diagnostic("NCNN0307", f"no layer matches {pattern}", Span(Source(path)), remedy))
    kinds: dict[str, str] = {}
    masks: dict[Value, int] = {}
    for node in list(twin):
        name = node.name or (node.results[0].name if node.results else "")
        kind = next((kind for pattern, kind in reversed(list(wanted.items())) if fnmatchcase(name, pattern)), None)
        before = max((masks.get(value, 0) for value in node.operands), default=0)
        if kind is None:
            own = before if node.op_type in _ALIKE else 0
        else:
            own = _FORBIDDEN[kind]
            if any(isinstance(value, Storage) and value.dtype is DType.INT8 for value in node.attributes.values()):
                message = f"{name} has int8 weights and cannot be {kind}"
                remedy = "keep the layer in float: graphport quantize --keep LAYER"
                findings.append(Diagnostic("NCNN0308", message, node.origin or Span(Source(path)), remedy))
                continue
            kinds[name] = kind
        if own:
            _forbid(node, own)
            for index, value in enumerate(node.operands):
                if own & ~masks.get(value, 0) and value.producer is not None:
                    node.set_input(index, _insert_float32_copy(twin, node, value, masks.get(value, 0)))
        masks.update(dict.fromkeys(node.results, own))
    if findings:
        raise DiagnosticError(*findings)
    return twin, kinds


def _forbid(node: Node, mask: int) -> None:
    bits = node.attributes.get(_MASK, 0)
    node.attributes[_MASK] = mask | (bits if isinstance(bits, int) else 0)


def _insert_float32_copy(graph: Graph, node: Node, value: Value, mask: int) -> Value:
    """Insert a `DeepCopy` of `value` before `node`, with which the runtime converts a 16-bit blob to float32."""
    result = Value(graph.fresh(f"{value.name}_whole"), value.fact)
    copy = Node("DeepCopy", [value], [result], dialect=node.dialect, name=f"whole_{result.name}")
    if mask:
        _forbid(copy, mask)
    return graph.insert_before(node, copy).output
