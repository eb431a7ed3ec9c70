"""Protobuf wire format: locate tensor payloads without reading them.

A model file is mostly weights. The scan reads field headers only, removes the payloads of large tensors at any depth
(initializers, attributes, bodies), and returns the rest as a small *skeleton* for the protobuf library. A tensor
without its payload is marked in its `segment` field, which is otherwise unused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGE = 4096
"""Bytes from which on a field is looked into, and the payload of a tensor left where it is."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types in use; 3 and 4 were groups, which ONNX has none of."""

CUT = -1
"""`segment.end` of a tensor whose payload is `cuts[segment.begin]`; a real segment ends after its begin."""

_SEGMENT = 3
_PAYLOADS = frozenset(
    {4, 9, 10}
)  # float_data, raw_data, double_data: the memory layout of all three is that of the elements
_TENSOR = "TensorProto"
_NESTED: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: _TENSOR, 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: _TENSOR,
        6: "GraphProto",
        10: _TENSOR,
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: _TENSOR, 2: _TENSOR},
}
"""Messages that may hold tensors, by field number of the message around them."""


class CorruptFileError(Exception):
    """Bytes that are no protobuf message; `offset` is where the field begins that cannot be read."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Cut(NamedTuple):
    """A removed tensor payload: `length` bytes from `start`, of the field number `field`."""

    start: int
    length: int
    field: int


class Skeleton(NamedTuple):
    """A model without the payloads of its large tensors."""

    data: bytes | memoryview
    cuts: list[Cut]


class _Frame:
    """A message that is being looked into."""

    __slots__ = ("kind", "nested", "parts", "run", "start", "stop", "tag")

    def __init__(self, kind: str, tag: int, start: int, stop: int) -> None:
        self.kind = kind
        self.nested = _NESTED.get(kind, {})
        self.tag = tag  # where its field begins in the message around it
        self.start = start
        self.stop = stop
        self.run = start  # from here on, nothing is in `parts` yet
        self.parts: list[bytes | memoryview] = []


def scan(data: memoryview, kind: str = "ModelProto") -> Skeleton:
    """The skeleton of the message in `data`; only heads of fields and small fields are touched.

    Raises:
        CorruptFileError: a field does not fit into the message around it, or is of no type that exists.
    """
    cuts: list[Cut] = []
    frames = [_Frame(kind, 0, 0, len(data))]
    position = 0
    while True:
        frame = frames[-1]
        if frame.kind == _TENSOR:
            _cut_tensor(data, frame, cuts)
            child = None
        else:
            child = _next_large(data, frame, position)
        if child is not None:
            frames.append(child)
            position = child.start
            continue
        frames.pop()
        if not frames:
            return Skeleton(_joined(data, frame), cuts)
        _close(data, frame, frames[-1])
        position = frame.stop


def varint(data: memoryview, position: int, start: int) -> tuple[int, int]:
    """The unsigned number at `position` and where it ends; `start` is where its field begins.

    Raises:
        CorruptFileError: the data ends in it, or it is longer than ten bytes.
    """
    number = 0
    for index, byte in enumerate(data[position : position + 10]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise CorruptFileError(start)


def to_varint(number: int) -> bytes:
    """An unsigned number, seven bits to a byte, low ones first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def head(field: int, length: int) -> bytes:
    """Return the header of a length-delimited field."""
    return to_varint(field << 3 | LENGTH) + to_varint(length)


def skip(data: memoryview, tag: int, position: int, start: int) -> int:
    """Return the end of the field with header `tag`, read up to `position`; it may exceed the data.

    Raises:
        CorruptFileError: unknown wire type.
    """
    match tag & 7:
        case 0:
            return varint(data, position, start)[1]
        case 1:
            return position + 8
        case 2:
            length, position = varint(data, position, start)
            return position + length
        case 5:
            return position + 4
        case _:
            raise CorruptFileError(start)


def _next_large(data: memoryview, frame: _Frame, position: int) -> _Frame | None:
    """The next field of the frame's message that may hold tensors and is large; `None` at the end."""
    # Every node of a model passes through this loop, so short tags and lengths are handled without a call.
    stop, nested = frame.stop, frame.nested
    while position < stop:
        start = position
        tag = data[position]
        position += 1
        if tag > 0x7F:
            tag, position = varint(data, start, start)
        if tag & 7 != LENGTH:
            position = skip(data, tag, position, start)
            continue
        if position >= stop:
            raise CorruptFileError(start)
        length = data[position]
        position += 1
        if length > 0x7F:
            length, position = varint(data, position - 1, start)
        end = position + length
        if end > stop:
            raise CorruptFileError(start)
        if length >= LARGE and tag >> 3 in nested:
            return _Frame(nested[tag >> 3], start, position, end)
        position = end
    if position > stop:
        raise CorruptFileError(frame.tag)
    return None


def _cut_tensor(data: memoryview, frame: _Frame, cuts: list[Cut]) -> None:
    """Remove the payload of a tensor if it is large and contiguous."""
    payloads: list[tuple[int, int, Cut]] = []
    position = frame.start
    while position < frame.stop:
        start = position
        tag, position = varint(data, start, start)
        content = position
        if tag & 7 == LENGTH:
            _, content = varint(data, position, start)
        position = skip(data, tag, position, start)
        if position > frame.stop:
            raise CorruptFileError(start)
        if tag >> 3 in _PAYLOADS or tag >> 3 == _SEGMENT:
            payloads.append((start, tag & 7, Cut(content, position - content, tag >> 3)))
    if len(payloads) != 1:
        return
    start, wire, cut = payloads[0]
    if wire != LENGTH or cut.length < LARGE or cut.field == _SEGMENT:
        return
    frame.parts += [data[frame.start : start], _marker(len(cuts))]
    frame.run = cut.start + cut.length
    cuts.append(cut)


def _marker(index: int) -> bytes:
    end = CUT & (1 << 64) - 1  # negative numbers are encoded as 64-bit unsigned ones
    content = to_varint(1 << 3) + to_varint(index) + to_varint(2 << 3) + to_varint(end)
    return head(_SEGMENT, len(content)) + content


def _close(data: memoryview, frame: _Frame, parent: _Frame) -> None:
    """Append the remainder of a message to its parent, with its new length."""
    if not frame.parts:
        return
    frame.parts.append(data[frame.run : frame.stop])
    tag, _ = varint(data, frame.tag, frame.tag)
    parent.parts += [data[parent.run : frame.tag], head(tag >> 3, sum(map(len, frame.parts))), *frame.parts]
    parent.run = frame.stop


def _joined(data: memoryview, frame: _Frame) -> bytes | memoryview:
    return b"".join([*frame.parts, data[frame.run : frame.stop]]) if frame.parts else data
