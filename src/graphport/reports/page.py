"""The report page: one HTML file without external resources."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from graphport.reports.layout import layout
from graphport.reports.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCRIPTS = ("data.js", "layout.js", "view.js", "card.js", "panels.js", "main.js")
_LARGE = 1 << 18
"""Length of the data in characters from which on it is compressed."""


def page(document: Mapping[str, Any]) -> str:
    """Render the document as HTML.

    Strings of the document never become markup or script: the page's content security policy admits one script by hash.
    """
    assets = files("graphport.reports") / "assets"
    script = "\n".join((assets / name).read_text("utf-8") for name in _SCRIPTS)
    style = (assets / "page.css").read_text("utf-8")
    data, coding = _data({**document, "layouts": [layouts(model) for model in document["models"]]})
    parts = {
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "version": escape(document["version"]),
        "title": escape(document["title"]),
        "style": style,
        "coding": coding,
        "data": data,
        "script": script,
    }
    head, *pieces = (assets / "page.html").read_text("utf-8").split("{")
    # Substitute each placeholder once, from left to right; substituted text is not scanned again.
    stated = [head]
    for piece in pieces:
        name, brace, rest = piece.partition("}")
        stated.append(f"{parts[name]}{rest}" if brace and name in parts else "{" + piece)
    return "".join(stated)


def layouts(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return for each scope its boxes (`b`: kind, index, width), layers (`l`), centres (`x`) and edges (`e`)."""
    tree = Tree(model)
    found: dict[str, Any] = {}
    for scope, boxes in tree.boxes.items():
        placed = layout([box.width for box in boxes], tree.edges.get(scope, ()))
        found[str(scope)] = {
            "b": [[box.kind, box.index, round(box.width)] for box in boxes],
            "l": placed.layers,
            "x": [round(x, 1) for x in placed.x],
            "e": [[edge.source, edge.target, edge.bends] for edge in placed.edges],
        }
    return found


def _data(document: Mapping[str, Any]) -> tuple[str, str]:
    """Serialize to JSON that cannot close a script element; compress long data."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if len(text) < _LARGE:
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"), "plain"
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode(), "gzip"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
