"""Write messages in protobuf's text format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.storage import Storage
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.message import Identifier, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.caffe.container.message import Content

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def to_text(message: Message) -> str:
    """Format `message` as text, one field per line; elements of tensors are omitted."""
    lines: list[str] = []
    pending: list[tuple[Iterator[tuple[str, str, Content]], str]] = [(_fields_in_order(message), "")]
    while pending:
        items, margin = pending[-1]
        for name, type, content in items:
            if isinstance(content, Message):
                lines += [f"{margin}{comment}" for comment in content.comments]
                lines.append(f"{margin}{name} {{")
                pending.append((_fields_in_order(content), f"{margin}  "))
                break
            if not isinstance(content, Storage):
                lines.append(f"{margin}{name}: {_scalar(content, type)}")
        else:
            pending.pop()
            if pending:
                lines.append(f"{margin[2:]}}}")
    return "\n".join([*lines, ""])


def _fields_in_order(message: Message) -> Iterator[tuple[str, str, Content]]:
    known = schema.fields(message.kind)
    for name, entries in message.entries.items():
        type = known[name].type if name in known else ""
        for entry in entries:
            yield name, type, entry.content


def _scalar(content: Content, type: str) -> str:
    match content:
        case bool():
            return "true" if content else "false"
        case int():
            return str(content)
        case float():
            # The shortest decimal that rounds to the value in the field's precision.
            text = repr(content) if type == "double" else str(np.float32(content))
            return text.removesuffix(".0")
        case Identifier():
            return str(content)
        case str():
            return f'"{"".join(map(_character, content))}"'
        case bytes():
            return f'"{"".join(_escaped_byte(byte) for byte in content)}"'
        case _:
            message = f"{content!r} is not a scalar"
            raise TypeError(message)


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(_escaped_byte(byte) for byte in character.encode("utf-8", "surrogateescape"))


def _escaped_byte(byte: int) -> str:
    character = chr(byte)
    return _ESCAPES.get(character) or (character if 32 <= byte < 127 else f"\\{byte:03o}")
