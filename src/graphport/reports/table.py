"""Reports as rows, CSV and Markdown."""

from __future__ import annotations

import csv as csv_
import io
from typing import TYPE_CHECKING, Any

from graphport.core.table import as_markdown, format_number, with_one_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_ROWS = 40
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each non-constant node of the first model; all rows have equal columns."""
    model = document["models"][0]
    values = model["values"]
    errors = {error["a"]: error for error in document.get("errors", ())}
    decided: dict[int, Mapping[str, Any]] = {
        d["node"]: d for d in document.get("dispatch", ()) if d["node"] is not None
    }
    times: Mapping[str, float] = document.get("times", {})
    found: list[dict[str, Any]] = []
    for index, node in enumerate(model["nodes"]):
        if node.get("constant"):
            continue
        results = [each for each in node["outputs"] if each is not None]
        first: Mapping[str, Any] = values[results[0]] if results else {}
        operands = [values[each] for each in node["inputs"] if each is not None]
        measured = [errors[each] for each in results if each in errors]
        worst: Mapping[str, Any] = min(measured, key=_quality) if measured else {}
        found.append(
            {
                "index": index,
                "name": node["name"] or first.get("name", ""),
                "operator": node["op"],
                "scope": scope_path(model, node.get("scope")),
                "type": first.get("type"),
                "shape": shape_text(first.get("shape")),
                "weight_bytes": sum(each.get("bytes", 0) for each in operands if each.get("kind") == "constant"),
                "macs": node.get("macs"),
                "live_bytes": node.get("live_bytes"),
                "microseconds": times.get(str(index)),
                "snr_db": worst.get("snr_db"),
                "max_abs": worst.get("max_abs"),
                "equal": worst.get("passed"),
                "place": decided[index]["place"] if index in decided else None,
                "reason": decided[index]["reason"] if index in decided else None,
                "origin": node.get("origin"),
            }
        )
    for row, macs in zip(found, with_one_type([row["macs"] for row in found]), strict=True):
        row["macs"] = macs
    return found


def _quality(error: Mapping[str, Any]) -> float:
    """Return the SNR; without one the value is either equal (+inf) or entirely different (-inf)."""
    known = error.get("snr_db")
    return known if known is not None else float("inf") if error["passed"] else float("-inf")


def scope_path(model: Mapping[str, Any], number: int | None) -> str:
    """Return the names of a scope and its parents, outermost first."""
    parts: list[str] = []
    while number is not None:
        scope = model["scopes"][number]
        parts.append(scope["name"])
        number = scope.get("parent")
    return "/".join(reversed(parts))


def shape_text(shape: Sequence[int | str] | None) -> str | None:
    """Format a shape: `1×3×224×224`, `scalar`, or None if it is unknown."""
    return None if shape is None else "×".join(map(str, shape)) or "scalar"


def csv(found: Sequence[Mapping[str, Any]]) -> str:
    """Format a shape: `1×3×224×224`, `scalar`, or None if it is unknown."""
    target = io.StringIO()
    writer = csv_.writer(target, lineterminator="\n")
    writer.writerow(found[0] if found else ["index", "name", "operator"])
    writer.writerows([_inert(cell) for cell in row.values()] for row in found)
    return target.getvalue()


def _inert(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def markdown(document: Mapping[str, Any]) -> str:
    """Render title, models, outputs, the first difference, quantization and diagnostics."""
    parts = [f"# {_line(document['title'])}"]
    for model in document["models"]:
        parts += _model(model)
    parts += _differences(document)
    parts += _quantization(document.get("quantization"))
    if proof := document.get("proof"):
        parts += ["## Proof", _line(proof["sentence"])]
    if document["diagnostics"]:
        cells = [[d["severity"], d["code"], d["message"], d["help"] or ""] for d in document["diagnostics"]]
        parts += ["## Findings", as_markdown(["", "code", "finding", "remedy"], cells[:_MOST_ROWS])]
    return "\n\n".join(parts) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("<", "\\<")


def _model(model: Mapping[str, Any]) -> list[str]:
    values, outer = model["values"], model["graphs"][0]
    facts = [
        [kind, values[index]["name"], values[index].get("type", "?"), shape_text(values[index].get("shape")) or "?"]
        for kind, of in (("input", outer["inputs"]), ("output", outer["outputs"]))
        for index in of
    ]
    found = model["inspection"]
    counts = [
        [op, format_number(count), format_number(found["macs_by_operator"].get(op))]
        for op, count in found["operators"].items()
    ]
    total = [["all", format_number(sum(found["operators"].values())), format_number(found["macs"])]]
    peak = found.get("activations")
    memory = [] if peak is None else [f"{peak['peak_bytes']:,} bytes of activations at {_line(peak['node'])}"]
    return [
        f"## {_line(model['file'] or model['graphs'][0]['name'])}",
        as_markdown(["", "name", "type", "shape"], facts),
        as_markdown(["operator", "nodes", "multiply-accumulates"], counts + total),
        f"{found['parameters']:,} parameters in {found['bytes']:,} bytes",
        *memory,
    ]


def _differences(document: Mapping[str, Any]) -> list[str]:
    if "errors" not in document:
        return []
    first = next((error for error in document["errors"] if not error["passed"]), None)
    headings = ["value", "of the second", "SNR dB", "max |a-b|", ""]
    cells = [
        [
            error["name"],
            error["other"],
            format_number(error["snr_db"]),
            format_number(error["max_abs"]),
            _verdict(error),
        ]
        for error in document["outputs"]
    ]
    place = "No value differs." if first is None else f"The first value that differs is {_line(first['name'])}."
    return ["## Difference", as_markdown(headings, cells), place]


def _verdict(error: Mapping[str, Any]) -> str:
    return "equal" if error["passed"] else error["reason"] or "differs"


def _quantization(found: Mapping[str, Any] | None) -> list[str]:
    if not found:
        return []
    cells = [
        [
            x["name"],
            x["operator"],
            format_number(x["own_db"]),
            format_number(x["accumulated_db"]),
            "; ".join(x["reasons"]),
        ]
        for x in found.get("layers", ())
    ]
    texts = [f"{found['snr_db']} dB"] if found.get("snr_db") is not None else []
    tables = [as_markdown(["layer", "operator", "own dB", "accumulated dB", "reasons"], cells)] if cells else []
    return ["## Quantization", *texts, *tables, f"{len(found['grids'])} values on grids"]
