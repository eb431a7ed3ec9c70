"""Metadata of a model as plain data, for archives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from graphport.core.facts import TensorFact
from graphport.formats.archive import NOTE, Documents, noted, provenance
from graphport.ir.graph import walk
from graphport.quantization.dispatch import ComputeDomain, Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.document import Proof
    from graphport.quantization.report import QuantizationReport

MAX_LISTED_SCALES = 4096
"""Maximum number of scales of a tensor that are listed; larger ones are referenced by constant name."""

_UNSTEADY = ("settings", "seconds")
"""Report fields that are redundant or not reproducible."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source file of a model: name, format and versions."""

    source: str
    format: str
    versions: Mapping[str, str]


def note_documents(
    graph: Graph,
    origin: Origin,
    *,
    decisions: Mapping[Node, Decision] | None = None,
    report: QuantizationReport | None = None,
    **stated: object,
) -> None:
    """Add provenance notes to `graph`; the source's provenance is kept as `earlier`.

    Args:
        graph: the result.
        origin: the source file.
        decisions: where each node is, or would be, computed.
        report: the report of the quantization.
        **stated: further provenance fields.
    """
    before = noted(graph)
    quantization = quantization_record(graph, report)
    if quantization is not None and report is None and before.quantization is not None:
        quantization = {**before.quantization, **quantization}
    graph.notes[NOTE] = Documents(
        quantization,
        None if decisions is None else dispatch_record(decisions),
        provenance(origin.source, origin.format, origin.versions, before.provenance, **stated),
    )


def note_checks(graph: Graph, proof: Proof | None, skipped: str | None) -> None:
    """Add to the provenance of `graph` how it was compared with its source, or why it was not."""
    documents = noted(graph)
    if documents.provenance is None or (proof is None and skipped is None):
        return
    checks = {"skipped": skipped} if proof is None or skipped is not None else _checks(proof)
    graph.notes[NOTE] = replace(documents, provenance={**documents.provenance, "checks": checks})


def _checks(proof: Proof) -> dict[str, Any]:
    outputs = [
        {
            "name": each.name,
            "passed": each.passed,
            "max_abs": each.max_abs,
            "snr_db": each.snr_db,
        }
        for each in proof.outputs
    ]
    return finite({"passed": proof.passed, "sentence": proof.sentence, "outputs": outputs})


def finite(stated: Any) -> Any:
    """Replace infinities and NaN in plain data, which JSON does not support."""
    match stated:
        case float():
            return stated if isfinite(stated) else None
        case dict():
            return {name: finite(entry) for name, entry in cast("dict[str, Any]", stated).items()}
        case list() | tuple():
            return [finite(entry) for entry in cast("list[Any]", stated)]
        case _:
            return stated


def dispatch_record(decisions: Mapping[Node, Decision]) -> dict[str, Any]:
    """List where each node is computed and why, in graph order; unnamed nodes have the name of their first result."""
    return {
        "nodes": [
            {"node": _name(node), "operator": node.op, "place": str(d.place), "reason": d.reason}
            for node, d in decisions.items()
        ]
    }


def final_decisions(
    decisions: Mapping[Node, Decision], graph: Graph, report: QuantizationReport
) -> dict[Node, Decision]:
    """Correct `decisions` by the quantized `graph`: a candidate may have stayed float."""
    layers = {layer.name: layer for layer in report.layers}
    rounded = {_name(node) for node in graph if _is_rounded(node)}
    kept = {_name(node) for inner in walk(graph) for node in inner}
    found = {node: decision for node, decision in decisions.items() if _name(node) in kept}
    for node, decision in list(found.items()):
        if decision.place is not ComputeDomain.QUANTIZED or _name(node) in rounded:
            continue
        layer = layers.get(_name(node))
        reason = "; ".join(layer.reasons) if layer is not None else ""
        found[node] = Decision(ComputeDomain.FLOATING, reason or "the target has no integer kernel for it here")
    return found


def _is_rounded(node: Node) -> bool:
    """Whether a node has quantized operands or results; a fused activation has quantized results only."""
    makers = [value.producer for value in node.operands]
    readers = [reader for value in node.results for reader in value.users]
    return node.op != "QuantizeLinear" and (
        any(each is not None and each.op == "DequantizeLinear" for each in makers)
        or any(reader.op == "QuantizeLinear" for reader in readers)
    )


def quantization_record(graph: Graph, report: QuantizationReport | None = None) -> dict[str, Any] | None:
    """Return the qparams of a quantized graph and their origin; `None` if nothing is quantized."""
    found = all_qparams(graph)
    if not found and report is None:
        return None
    if report is None:
        return {"grids": found}
    kept = {name: stated for name, stated in report.as_json().items() if name not in _UNSTEADY}
    return {"settings": report.settings.as_json(), "report": finite(kept), "grids": found}


def all_qparams(graph: Graph) -> list[dict[str, Any]]:
    """List the qparams of each quantized value, and of each constant that is stored as codes.

    `value` is the float value or the constant with the codes, `type` the type of the codes; a float is `(code -
    zero_point) * scale`. Per-axis or block-wise, `scale` is a list along `axis`, and so is `zero_point`, unless all are
    equal; if they are too long, the name of the constant that contains them.
    """
    rows: list[dict[str, Any]] = []
    for inner in walk(graph):
        for node in inner:
            value = node.operand(0)
            if node.op == "QuantizeLinear" or (node.op == "DequantizeLinear" and _is_stored(value)):
                rows += _row(node, value)
    return rows


def _row(node: Node, value: Value | None) -> list[dict[str, Any]]:
    codes = node.results[0] if node.op == "QuantizeLinear" and node.results else value
    scale = node.operand(1)
    if value is None or scale is None:
        return []
    zero_point = node.operand(2)
    row: dict[str, Any] = {"value": value.name, "type": _type(codes), "scale": _as_list(scale)}
    row["zero_point"] = 0 if zero_point is None else _single_value(_as_list(zero_point))
    if scale.storage is None or scale.storage.shape:
        row["axis"] = node.attributes.get("axis", 1)
    if node.attributes.get("block_size"):
        row["block_size"] = node.attributes["block_size"]
    return [row]


def _is_stored(value: Value | None) -> bool:
    return value is not None and value.storage is not None


def _type(codes: Value | None) -> str | None:
    fact = None if codes is None else codes.fact
    return str(fact.dtype) if isinstance(fact, TensorFact) and fact.dtype is not None else None


def _as_list(value: Value) -> Any:
    storage: Storage | None = value.storage
    if storage is None or storage.count > MAX_LISTED_SCALES:
        return value.name
    array = storage.numpy()
    # Narrow floats are not Python numbers.
    return finite(array.astype("float64" if storage.dtype.is_floating else "int64").tolist())


def _single_value(found: Any) -> Any:
    """Return the single number of a list with equal elements."""
    if not isinstance(found, list):
        return found
    numbers = cast("list[Any]", found)
    return numbers[0] if numbers and all(number == numbers[0] for number in numbers) else numbers


def _name(node: Node) -> str:
    return node.name or (node.results[0].name if node.results else "")
