"""Layers of PNNX, ncnn and Caffe texts with their lines, for outlines and hover texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

DIALECTS = {"pnnx": "pnnx", "ncnn": "ncnn", "caffe": "caffe"}
"""Dialect of the layer types, by format."""
_FIELD = re.compile(r"\b(name|type|bottom|top)\s*:\s*[\"']([^\"']*)[\"']|(\blayers?\s*\{)")
_MAGIC = "7767517"


class Layer(NamedTuple):
    """A layer: first and last line (0-based), type, name, inputs and outputs as the file states them."""

    first: int
    last: int
    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def detect_format(path: str, text: str) -> str | None:
    """Return the format of a text by file name and first tokens, or None."""
    if path.endswith(".nnef"):
        return "nnef"
    if path.endswith(".prototxt"):
        return "caffe"
    if not path.endswith(".param"):
        return None
    tokens = text.split(maxsplit=4)
    is_pnnx = path.endswith(".pnnx.param") or (len(tokens) > 3 and tokens[0] == _MAGIC and "." in tokens[3])
    return "pnnx" if is_pnnx else "ncnn"


def parse_layers(lines: Sequence[str], format: str) -> list[Layer]:
    """Return the complete layers of a text."""
    return _parse_prototxt_layers(lines) if format == "caffe" else _parse_param_lines(lines)


def _parse_param_lines(lines: Sequence[str]) -> list[Layer]:
    found: list[Layer] = []
    for number, line in enumerate(lines[2:], 2):
        tokens = line.split()
        if len(tokens) < 4 or not (tokens[2].isdecimal() and tokens[3].isdecimal()):
            continue
        taken, given = int(tokens[2]), int(tokens[3])
        inputs, outputs = tokens[4 : 4 + taken], tokens[4 + taken : 4 + taken + given]
        found.append(Layer(number, number, tokens[0], tokens[1], tuple(inputs), tuple(outputs)))
    return found


def _parse_prototxt_layers(lines: Sequence[str]) -> list[Layer]:
    found: list[Layer] = []
    fields: dict[str, list[str]] = {}
    first, depth = -1, 0
    for number, line in enumerate(lines):
        bare = line.partition("#")[0]
        for match in _FIELD.finditer(bare):
            if match[3]:
                first, fields, depth = number, {}, 0
            elif first >= 0:
                fields.setdefault(match[1], []).append(match[2])
        depth += bare.count("{") - bare.count("}")
        if first >= 0 and depth <= 0:
            type_, name = (fields.get(key, [""])[0] for key in ("type", "name"))
            found.append(
                Layer(first, number, type_, name, tuple(fields.get("bottom", ())), tuple(fields.get("top", ())))
            )
            first, depth = -1, 0
    return found


def hover_text(lines: Sequence[str], format: str, line: int, token: str) -> str | None:
    """Return the hover text of a layer type (documentation) or of a blob (producer and consumers), as Markdown."""
    from graphport.lsp.nnef_completion import operator_manuals

    found = parse_layers(lines, format)
    here = next((layer for layer in found if layer.first <= line <= layer.last), None)
    if here is not None and token == here.type:
        stated = operator_manuals(DIALECTS[format], token)
        return "\n\n".join([f"**{token}**", *stated])
    producers = [layer for layer in found if token in layer.outputs]
    consumers = [layer for layer in found if token in layer.inputs]
    if not producers and not consumers:
        return None
    origin = f"produced by `{producers[-1].type} {producers[-1].name}`" if producers else "an input"
    users = ", ".join(f"`{layer.type} {layer.name}`" for layer in consumers) or "no layer"
    return f"**{token}**: {origin}, consumed by {users}"
