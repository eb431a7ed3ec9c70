"""The page: one file that opens from disk and fetches nothing."""

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
"""Characters of data from which on it is compressed."""


def page(document: Mapping[str, Any]) -> str:
    """The document as HTML. No text of it becomes markup or a program: a policy in the page admits one script, ours."""
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
    # Each part once, from the left: what is put in is not looked through again.
    stated = [head]
    for piece in pieces:
        name, brace, rest = piece.partition("}")
        stated.append(f"{parts[name]}{rest}" if brace and name in parts else "{" + piece)
    return "".join(stated)


def layouts(model: Mapping[str, Any]) -> dict[str, Any]:
    """Of each scope its boxes (`b`: kind, number, width), layers (`l`), middles (`x`) and edges with bends (`e`)."""
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
    """JSON that ends no script element; compressed if it is long."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if len(text) < _LARGE:
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"), "plain"
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode(), "gzip"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
