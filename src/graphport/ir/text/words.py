"""Keywords and tokens of the text form, shared by writer and reader."""

from __future__ import annotations

import re

from graphport.core.dtypes import DType

SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
WORD = re.compile(r"[\w.]+")
PATH = re.compile(r"[\w./]+")
DIM = re.compile(r"[\w+\-*/%()`?]+")
STRING = re.compile(r'"([^"\\\r\n]*(?:\\.[^"\\\r\n]*)*)"')
INTEGER = re.compile(r"-?[0-9]+")
NUMBER = re.compile(r"(?:-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf)|nan(?::0x([0-9a-f]{1,16}))?)(?![\w.])")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
DTYPES = {str(dtype): dtype for dtype in DType}

_ESCAPED = {character: f"\\{letter}" for letter, character in ESCAPES.items()}


def dim_end(text: str, start: int) -> int:
    """Return the end of the unquoted dim that begins at `start`, or `start` if there is none.

    An unmatched closing bracket ends the dim. A name in backquotes may contain brackets.
    """
    found = DIM.match(text, start)
    if found is None:
        return start
    depth, is_name = 0, False
    for place in range(start, found.end()) if ")" in found[0] else ():
        sign = text[place]
        if sign == "`":
            is_name = not is_name
        elif sign in "()" and not is_name:
            depth += 1 if sign == "(" else -1
            if depth < 0:
                return place
    return found.end()


def dim_text(text: str) -> str:
    """Format a dim; it is quoted if it would be parsed as another dim or an integer, also before a bracket."""
    is_whole = dim_end(f"{text})", 0) == len(text)
    return text if is_whole and not INTEGER.fullmatch(text) else string_text(text)


def split_op(op: str) -> tuple[str, str]:
    """Split an operator without a colon into dialect and op type."""
    dialect, point, op_type = op.partition(".")
    return (dialect, op_type) if point else ("", op)


def name_text(name: str) -> str:
    """Format a name, quoted if necessary."""
    return name if WORD.fullmatch(name) else string_text(name)


def value_text(name: str) -> str:
    """A value of that name."""
    return f"%{name}" if PATH.fullmatch(name) else f"%{string_text(name)}"


def string_text(text: str) -> str:
    """A string in quotes; what would not be seen is escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_character, text))}"'


def bytes_text(data: bytes) -> str:
    """Bytes in quotes."""
    characters = (_ESCAPED.get(chr(byte)) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data)
    return f'b"{"".join(characters)}"'


def _character(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
