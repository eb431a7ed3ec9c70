"""Which layers are computed, and stored, in how many bits: parameter 31 forbids a layer what options allow.

Of 16 bits the runtime makes single precision only for a layer that its options let have 16 bits and that knows none. In
front of a layer that is forbidden what the one before has, `DeepCopy` is such a layer.
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
"""What a layer of each type is not to be computed in: arithmetic and storage of float16, and storage of bfloat16."""
_ALIKE = frozenset(("Split", "Noop"))
"""Layers that are what the one before is."""


def parsed(stated: Iterable[str], path: str) -> dict[str, str]:
    """Texts `LAYER=TYPE` as a mapping, layers by name or pattern.

    Raises:
        DiagnosticError: NCNN0307 one is neither.
    """
    if isinstance(stated, str):
        stated = [stated]
    texts = (str(each) for each in stated)
    found = {name: kind for name, _, kind in (text.rpartition("=") for text in texts)}
    for name, kind in found.items():
        if not name or kind not in _FORBIDDEN:
            quantized = "int8 is what quantize --target ncnn --quantize LAYER makes"
            remedy = quantized if kind == "int8" else "such as conv*=f32"
            message = f"{name}={kind} is no layer and one of {', '.join(_FORBIDDEN)}"
            raise DiagnosticError(Diagnostic("NCNN0307", message, Span(Source(path)), remedy))
    return found


def masked(graph: Graph, wanted: Mapping[str, str], path: str) -> tuple[Graph, dict[str, str]]:
    """A copy of a graph in words of ncnn whose layers are forbidden what they are not to have, and the type of each.

    The last pattern that fits a layer's name counts. Blobs that have been narrowed become single ones in front of it.

    Raises:
        DiagnosticError: NCNN0307 a pattern fits no layer, NCNN0308 a layer has weights of 8 bits.
    """
    twin = rewrite.copy(graph)
    names = [node.name or node.results[0].name for node in twin if node.results]
    findings: list[Diagnostic] = []
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = get_close_matches(pattern, names, 3)
            remedy = f"is it {' or '.join(near)}?" if near else "inspect lists the layers of a file of ncnn"
            findings.append(Diagnostic("NCNN0307", f"no layer is called {pattern}", Span(Source(path)), remedy))
    kinds: dict[str, str] = {}
    masks: dict[Value, int] = {}
    for node in list(twin):
        name = node.name or (node.results[0].name if node.results else "")
        kind = next((kind for pattern, kind in reversed(list(wanted.items())) if fnmatchcase(name, pattern)), None)
        before = max((masks.get(value, 0) for value in node.operands), default=0)
        if kind is None:
            own = before if node.word in _ALIKE else 0
        else:
            own = _FORBIDDEN[kind]
            if any(isinstance(value, Storage) and value.dtype is DType.INT8 for value in node.attributes.values()):
                message = f"{name} has weights of 8 bits and cannot be {kind}"
                remedy = "quantize --keep LAYER leaves it real"
                findings.append(Diagnostic("NCNN0308", message, node.origin or Span(Source(path)), remedy))
                continue
            kinds[name] = kind
        if own:
            _forbid(node, own)
            for index, value in enumerate(node.operands):
                if own & ~masks.get(value, 0) and value.producer is not None:
                    node.set_input(index, _whole(twin, node, value, masks.get(value, 0)))
        masks.update(dict.fromkeys(node.results, own))
    if findings:
        raise DiagnosticError(*findings)
    return twin, kinds


def _forbid(node: Node, mask: int) -> None:
    bits = node.attributes.get(_MASK, 0)
    node.attributes[_MASK] = mask | (bits if isinstance(bits, int) else 0)


def _whole(graph: Graph, node: Node, value: Value, mask: int) -> Value:
    """A copy of a blob in single precision, which is read as the layer that makes it is computed."""
    result = Value(graph.fresh(f"{value.name}_whole"), value.fact)
    copy = Node("DeepCopy", [value], [result], dialect=node.dialect, name=f"whole_{result.name}")
    if mask:
        _forbid(copy, mask)
    return graph.insert_before(node, copy).output
