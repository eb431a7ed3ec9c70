"""Location of a protobuf error: the byte, and the path of the field in the ONNX schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from onnx import ModelProto

from graphport.formats.onnx.container import wire
from graphport.formats.onnx.container.wire import CorruptFileError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

MOST_DEPTH = 100
"""Messages within each other that the protobuf library accepts."""


class Corruption(NamedTuple):
    """An error at byte `offset`, in the field `path` (`graph.initializer[3].raw_data`; empty at the top level)."""

    offset: int
    path: str
    message: str
    is_cut: bool = False
    """Whether the file ends in it."""

    @property
    def location(self) -> str:
        """Text of the location for a span."""
        return f"byte {self.offset}: {self.path}" if self.path else f"byte {self.offset}"


class _Frame:
    __slots__ = ("counts", "message", "path", "stop")

    def __init__(self, message: Descriptor, path: str, stop: int) -> None:
        self.message = message
        self.path = path
        self.stop = stop
        self.counts: dict[int, int] = {}


class _Step(NamedTuple):
    """The next position to scan, the message that begins there, and an error if the file is truncated."""

    position: int
    inner: _Frame | None = None
    cut: Corruption | None = None


def find_corruption(data: memoryview) -> Corruption | None:
    """Return the first error in the bytes of a model, checking every field; `None` if there is none.

    Where the file ends too early, it is the innermost field that is cut.
    """
    frames = [_Frame(cast("Descriptor", ModelProto.DESCRIPTOR), "", len(data))]
    position = 0
    cut: Corruption | None = None
    while frames:
        frame = frames[-1]
        if position >= frame.stop:
            frames.pop()
            continue
        answer = _field(data, frame, position)
        if isinstance(answer, Corruption):
            return answer if cut is None or answer.is_cut else cut
        if answer.cut is not None:
            cut = answer.cut
        position = answer.position
        if answer.inner is not None:
            frames.append(answer.inner)
        if len(frames) > MOST_DEPTH:
            return Corruption(position, _shortened(frames[-1].path), f"messages are nested {MOST_DEPTH} levels deep")
    return cut


def _field(data: memoryview, frame: _Frame, start: int) -> Corruption | _Step:
    """A fault in the field at `start`, or where to read on."""
    try:
        tag, position = wire.varint(data[: frame.stop], start, start)
    except CorruptFileError:
        return Corruption(start, frame.path, "unterminated field number", is_cut=frame.stop == len(data))
    number, kind = tag >> 3, tag & 7
    if number == 0 or number >= 1 << 29 or kind not in (wire.VARINT, wire.FIXED64, wire.LENGTH, wire.FIXED32):
        return Corruption(start, frame.path, f"invalid protobuf: no field of {frame.message.name} begins with {tag:#x}")
    field = frame.message.fields_by_number.get(number)
    path = _path(frame, field, number)
    try:
        end = wire.skip(data[: frame.stop], tag, position, start)
    except CorruptFileError:
        return Corruption(start, path, "unterminated varint", is_cut=frame.stop == len(data))
    cut: Corruption | None = None
    if end > frame.stop:
        message = f"truncated file: {end - start:,} bytes expected, {frame.stop - start:,} left"
        cut = Corruption(start, path, message, is_cut=frame.stop == len(data))
        if not cut.is_cut or field is None or field.message_type is None or kind != wire.LENGTH:
            return cut
        end = frame.stop
    if field is None or kind != wire.LENGTH:
        return _Step(end)
    _, content = wire.varint(data, position, start)
    if field.message_type is not None:
        return _Step(content, _Frame(field.message_type, path, end), cut)
    if field.is_repeated and field.type not in (field.TYPE_STRING, field.TYPE_BYTES):
        return _packed(data, field, path, content, end)
    return _Step(end)


def _packed(data: memoryview, field: FieldDescriptor, path: str, start: int, end: int) -> Corruption | _Step:
    """Check a packed list of numbers."""
    width = {field.TYPE_FLOAT: 4, field.TYPE_DOUBLE: 8}.get(field.type)
    if width is not None:
        odd = (end - start) % width
        return (
            Corruption(start, path, f"{end - start} bytes is not a multiple of the {width}-byte element size")
            if odd
            else _Step(end)
        )
    position = start
    while position < end:
        try:
            _, position = wire.varint(data[:end], position, position)
        except CorruptFileError:
            return Corruption(position, path, "unterminated varint")
    return _Step(end)


def _path(frame: _Frame, field: FieldDescriptor | None, number: int) -> str:
    name = f"field {number}" if field is None else field.name
    if field is not None and field.is_repeated:
        index = frame.counts.get(number, 0)
        frame.counts[number] = index + 1
        name = f"{name}[{index}]"
    return f"{frame.path}.{name}" if frame.path else name


def _shortened(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]}…{path[-80:]}"
