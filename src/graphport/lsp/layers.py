"""Lists of layers of PNNX, ncnn and Caffe: what stands where, for outlines and hovers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = {"pnnx": "pnnx", "ncnn": "ncnn", "caffe": "caffe"}
"""The dialect that the types of layers are words of, by format."""
_FIELD = re.compile(r"\b(name|type|bottom|top)\s*:\s*[\"']([^\"']*)[\"']|(\blayers?\s*\{)")
_MAGIC = "7767517"


class Layer(NamedTuple):
    """A layer: lines from 0, and the words that its file has for it."""

    first: int
    last: int
    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def format_of(path: str, text: str) -> str | None:
    """The format of a text, by its name and its first words; `None` where it is none that is known."""
    if path.endswith(".nnef"):
        return "nnef"
    if path.endswith(".prototxt"):
        return "caffe"
    if not path.endswith(".param"):
        return None
    words = text.split(maxsplit=4)
    is_pnnx = path.endswith(".pnnx.param") or (len(words) > 3 and words[0] == _MAGIC and "." in words[3])
    return "pnnx" if is_pnnx else "ncnn"


def layers(lines: Sequence[str], format: str) -> list[Layer]:
    """The layers of a text, as far as it has them."""
    return _of_messages(lines) if format == "caffe" else _of_lines(lines)


def _of_lines(lines: Sequence[str]) -> list[Layer]:
    found: list[Layer] = []
    for number, line in enumerate(lines[2:], 2):
        words = line.split()
        if len(words) < 4 or not (words[2].isdecimal() and words[3].isdecimal()):
            continue
        taken, given = int(words[2]), int(words[3])
        inputs, outputs = words[4 : 4 + taken], words[4 + taken : 4 + taken + given]
        found.append(Layer(number, number, words[0], words[1], tuple(inputs), tuple(outputs)))
    return found


def _of_messages(lines: Sequence[str]) -> list[Layer]:
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


def hover(lines: Sequence[str], format: str, line: int, word: str) -> str | None:
    """What a word of a layer is, as Markdown: a type with its manual, a blob with who makes and who reads it."""
    from graphport.lsp.nnef import manuals

    found = layers(lines, format)
    here = next((layer for layer in found if layer.first <= line <= layer.last), None)
    if here is not None and word == here.type:
        stated = manuals(FORMATS[format], word)
        return "\n\n".join([f"**{word}**", *stated])
    makers = [layer for layer in found if word in layer.outputs]
    readers = [layer for layer in found if word in layer.inputs]
    if not makers and not readers:
        return None
    made = f"made by `{makers[-1].type} {makers[-1].name}`" if makers else "an input"
    read = ", ".join(f"`{layer.type} {layer.name}`" for layer in readers) or "nobody"
    return f"**{word}**: {made}, read by {read}"
