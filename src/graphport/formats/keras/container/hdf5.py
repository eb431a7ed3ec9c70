"""Read the subset of HDF5 that Keras writes: groups, attributes and datasets of one file, without libhdf5.

A reader of our own opens weights on a bare installation, keeps hostile files away from code in C, and maps contiguous
datasets where they lie. The subset: superblocks 0 to 3, object headers 1 and 2, groups as B-trees of version 1 or as
link messages, datasets that are compact, contiguous or chunked with a B-tree of version 1, and the filters deflate,
shuffle and fletcher32. Other parts of HDF5 are refused by name. Links to other files are never followed.

Source: HDF5 File Format Specification, version 3.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphport.formats.keras.container.hdf5_bytes import UNDEFINED, Cursor, Hdf5Bytes
from graphport.formats.keras.container.hdf5_types import (
    Dataspace,
    Datatype,
    decode_values,
    read_dataspace,
    read_datatype,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.core.diagnostics import Source
    from graphport.core.storage import Bytes, MappedFile

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MAX_DEPTH = 64
"""Soft links that lead to each other, and levels of a B-tree."""

_CONTINUATION, _ATTRIBUTE, _SYMBOL_TABLE, _LINK, _LINK_INFO = 0x10, 0x0C, 0x11, 0x06, 0x02
_DATASPACE, _DATATYPE, _LAYOUT, _FILTERS, _ATTRIBUTE_INFO, _EXTERNAL = 0x01, 0x03, 0x08, 0x0B, 0x15, 0x07
_SHARED = 0x02


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an object header."""

    kind: int
    flags: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute whose elements are decoded when they are needed."""

    file: Hdf5Bytes
    name: str
    datatype: Datatype
    dataspace: Dataspace
    data: memoryview

    @property
    def values(self) -> list[Any]:
        """The elements in row-major order."""
        return decode_values(self.file, self.datatype, self.dataspace, self.data, f"attribute {self.name!r}")


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of a group: the address of an object, or the path of a soft link."""

    address: int
    path: str | None = None
    is_external: bool = False


class Hdf5(Hdf5Bytes):
    """An HDF5 file."""

    def __init__(self, file: MappedFile | Bytes, source: Source, start: int = 0, size: int | None = None) -> None:
        """Read the superblock.

        Raises:
            DiagnosticError: KERAS0101 the file is damaged, KERAS0102 it uses a part of HDF5 that is not read.
        """
        super().__init__(file, source, start, file.size - start if size is None else size)
        self.root = Object(self, self._superblock(), "/")

    def _superblock(self) -> int:
        """The address of the root group's object header."""
        if self.size < 48 or bytes(self.file.view(self.start, 8)) != SIGNATURE:
            self.refuse("not an HDF5 file: the signature is missing")
        cursor = Cursor(self, self.file.view(self.start, min(self.size, 128)), "the superblock")
        cursor.skip(8)
        version = cursor.read_int(1)
        if version > 3:
            self.refuse(f"unsupported superblock version {version}", "KERAS0102")
        if version < 2:
            cursor.skip(4)
        self.offset_size, self.length_size = cursor.read_int(1), cursor.read_int(1)
        if self.offset_size not in (2, 4, 8) or self.length_size not in (2, 4, 8):
            self.refuse(
                f"unsupported sizes: offsets of {self.offset_size} bytes, lengths of {self.length_size} bytes",
                "KERAS0102",
            )
        cursor.skip(1 if version >= 2 else 9 if version == 0 else 13)
        self.base = cursor.offset()
        if self.base == UNDEFINED:
            self.refuse("the superblock has no base address")
        cursor.offset()
        end = cursor.offset()
        if end != UNDEFINED and end > self.size:
            self.refuse(f"truncated HDF5 file: {end} bytes expected, {self.size} found")
        if version < 2:
            cursor.offset()
            cursor.offset()
        return cursor.offset()


class Object:
    """A group or dataset, by its object header."""

    def __init__(self, file: Hdf5, address: int, path: str) -> None:
        self.file = file
        self.address = address
        self.path = path

    @cached_property
    def messages(self) -> list[Message]:
        """The messages of the object header."""
        file, place = self.file, f"the object header of {self.path!r}"
        head = bytes(file.bytes(self.address, 4, place))
        found = list(self._messages_2(place) if head == b"OHDR" else self._messages_1(place))
        for message in found:
            if message.flags & _SHARED and message.kind in (_DATATYPE, _DATASPACE, _FILTERS):
                file.refuse(f"{place} has a shared message", "KERAS0102")
        return found

    def _messages_1(self, place: str) -> Iterator[Message]:
        file = self.file
        head = file.cursor(self.address, 16, place)
        if head.read_int(1) != 1:
            file.refuse(f"{place} has an unknown version")
        head.skip(1)
        count = head.read_int(2)
        head.skip(4)
        blocks = [(self.address + 16, head.read_int(4))]
        while blocks and count > 0:
            file.count()
            cursor = file.cursor(*blocks.pop(0), place)
            while cursor.remaining >= 8 and count > 0:
                file.count()
                count -= 1
                kind, size, flags = cursor.read_int(2), cursor.read_int(2), cursor.read_int(1)
                cursor.skip(3)
                data = cursor.read_bytes(size)
                if kind == _CONTINUATION:
                    inner = Cursor(file, data, place)
                    blocks.append((inner.offset(), inner.length()))
                else:
                    yield Message(kind, flags, data)

    def _messages_2(self, place: str) -> Iterator[Message]:
        file = self.file
        head = file.cursor(self.address, min(64, file.size - self.address), place)
        head.skip(5)
        flags = head.read_int(1)
        head.skip(16 * bool(flags & 0x20) + 4 * bool(flags & 0x10))
        size = head.read_int(1 << (flags & 3))
        blocks = [(self.address + head.at, size)]
        while blocks:
            file.count()
            cursor = file.cursor(*blocks.pop(0), place)
            while cursor.remaining >= 4 + 2 * bool(flags & 0x04):
                file.count()
                kind, length, message_flags = cursor.read_int(1), cursor.read_int(2), cursor.read_int(1)
                cursor.skip(2 * bool(flags & 0x04))
                data = cursor.read_bytes(length)
                if kind == _CONTINUATION:
                    inner = Cursor(file, data, place)
                    address, total = inner.offset(), inner.length()
                    if bytes(file.bytes(address, 4, place)) != b"OCHK":
                        file.refuse(f"{place} has an invalid continuation block")
                    blocks.append((address + 4, total - 8))
                else:
                    yield Message(kind, message_flags, data)

    def message(self, kind: int) -> memoryview | None:
        """The first message of a kind."""
        return next((each.data for each in self.messages if each.kind == kind), None)

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """The attributes by name."""
        info = self.message(_ATTRIBUTE_INFO)
        if info is not None:
            cursor = Cursor(self.file, info, f"attributes of {self.path!r}")
            cursor.skip(1)
            cursor.skip(2 * bool(cursor.read_int(1) & 1))
            if cursor.offset() != UNDEFINED:
                self.file.refuse(f"the attributes of {self.path!r} are stored in a fractal heap", "KERAS0102")
        found = [self._attribute(each.data) for each in self.messages if each.kind == _ATTRIBUTE]
        return {each.name: each for each in found}

    def _attribute(self, data: memoryview) -> Attribute:
        file, cursor = self.file, Cursor(self.file, data, f"an attribute of {self.path!r}")
        version, flags = cursor.read_int(1), cursor.read_int(1)
        if version not in (1, 2, 3) or (version > 1 and flags):
            file.refuse(f"an attribute of {self.path!r} has version {version}, or is shared", "KERAS0102")
        sizes = [cursor.read_int(2) for _ in range(3)]
        cursor.skip(version == 3)
        parts: list[memoryview] = []
        for size in sizes:
            parts.append(cursor.read_bytes(size))
            if version == 1:
                cursor.skip(-size % 8)
        name = bytes(parts[0]).split(b"\0")[0].decode("utf-8", "replace")
        place = f"attribute {name!r} of {self.path!r}"
        datatype = read_datatype(Cursor(file, parts[1], place))
        dataspace = read_dataspace(Cursor(file, parts[2], place))
        return Attribute(file, name, datatype, dataspace, cursor.data[cursor.at :])

    @property
    def is_dataset(self) -> bool:
        """Whether it is a dataset."""
        return self.message(_LAYOUT) is not None

    @cached_property
    def links(self) -> Mapping[str, Link]:
        """The entries of a group by name."""
        table = self.message(_SYMBOL_TABLE)
        if table is not None:
            cursor = Cursor(self.file, table, f"group {self.path!r}")
            return dict(self._symbols(cursor.offset(), cursor.offset()))
        info = self.message(_LINK_INFO)
        if info is not None:
            cursor = Cursor(self.file, info, f"group {self.path!r}")
            cursor.skip(1)
            cursor.skip(8 * bool(cursor.read_int(1) & 1))
            if cursor.offset() != UNDEFINED:
                self.file.refuse(f"the group {self.path!r} is stored in a fractal heap", "KERAS0102")
        return dict(self._link(each.data) for each in self.messages if each.kind == _LINK)

    def _link(self, data: memoryview) -> tuple[str, Link]:
        cursor = Cursor(self.file, data, f"a link of {self.path!r}")
        cursor.skip(1)
        flags = cursor.read_int(1)
        kind = cursor.read_int(1) if flags & 0x08 else 0
        cursor.skip(8 * bool(flags & 0x04) + bool(flags & 0x10))
        name = bytes(cursor.read_bytes(cursor.read_int(1 << (flags & 3)))).decode("utf-8", "replace")
        if kind == 0:
            return name, Link(cursor.offset())
        if kind == 1:
            return name, Link(UNDEFINED, bytes(cursor.read_bytes(cursor.read_int(2))).decode("utf-8", "replace"))
        return name, Link(UNDEFINED, is_external=True)

    def _symbols(self, tree: int, heap: int) -> Iterator[tuple[str, Link]]:
        """The entries of a group in a B-tree of version 1; names lie in a local heap."""
        file, place = self.file, f"the group {self.path!r}"
        head = file.cursor(heap, 8 + 2 * file.length_size + file.offset_size, place)
        if bytes(head.read_bytes(4)) != b"HEAP":
            file.refuse(f"{place} has no name heap")
        head.skip(4)
        size = head.length()
        head.length()
        names = bytes(file.bytes(head.offset(), size, place))
        for address in self._leaves(tree, 0, place):
            cursor = file.cursor(address, 8, place)
            if bytes(cursor.read_bytes(4)) != b"SNOD":
                file.refuse(f"{place} has a node without signature")
            cursor.skip(2)
            count, width = cursor.read_int(2), 2 * file.offset_size + 24
            file.count(count)
            node = file.cursor(address, 8 + count * width, place)
            node.skip(8)
            for _ in range(count):
                entry = Cursor(file, node.read_bytes(width), place)
                name = _text(names, entry.offset())
                target, kind = entry.offset(), entry.read_int(4)
                entry.skip(4)
                yield name, Link(UNDEFINED, _text(names, entry.read_int(4))) if kind == 2 else Link(target)

    def _leaves(self, root: int, kind: int, place: str) -> Iterator[int]:
        """Addresses of the nodes that the last level of a B-tree of groups leads to."""
        file = self.file
        key, seen, pending = file.length_size, set[int](), [root]
        while pending:
            address = pending.pop()
            if address in seen:
                file.refuse(f"{place} has a cyclic B-tree")
            seen.add(address)
            level, count = node_head(file, address, kind, place)
            cursor = file.cursor(address, 8 + 2 * file.offset_size + count * (key + file.offset_size) + key, place)
            cursor.skip(8 + 2 * file.offset_size)
            children: list[int] = []
            for _ in range(count):
                cursor.skip(key)
                children.append(cursor.offset())
            if level:
                pending.extend(reversed(children))
            else:
                yield from children

    def find(self, path: str) -> Object | None:
        """The object at a relative path; `None` if there is none.

        Raises:
            DiagnosticError: KERAS0101 a soft link leads back to itself, KERAS0102 a link leads to another file.
        """
        return self._find([part for part in path.split("/") if part], 0)

    def _find(self, parts: list[str], depth: int) -> Object | None:
        found: Object = self
        for index, part in enumerate(parts):
            if found.is_dataset:
                return None
            link = found.links.get(part)
            if link is None:
                return None
            path = f"{found.path.rstrip('/')}/{part}"
            if link.is_external:
                self.file.refuse(f"{path!r} is a link to another file, which is not supported", "KERAS0102")
            if link.path is not None:
                if depth >= _MAX_DEPTH:
                    self.file.refuse(f"cyclic soft link {path!r}")
                start = self.file.root if link.path.startswith("/") else found
                rest = [each for each in link.path.split("/") if each and each != "."]
                return start._find([*rest, *parts[index + 1 :]], depth + 1)
            found = Object(self.file, link.address, path)
        return found

    def strings(self, name: str) -> list[str] | None:
        """The strings of an attribute, which may be parted into `name0`, `name1` and so on; `None` if absent."""
        parts = [name] if name in self.attributes else []
        while not parts or parts[0] != name:
            part = f"{name}{len(parts)}"
            if part not in self.attributes:
                break
            parts.append(part)
        if not parts:
            return None
        values = [value for part in parts for value in self.attributes[part].values]
        return [value for value in values if isinstance(value, str)]


def node_head(file: Hdf5Bytes, address: int, kind: int, place: str) -> tuple[int, int]:
    """The level and the number of entries of a node of a B-tree of version 1."""
    file.count()
    head = file.cursor(address, 8, place)
    if bytes(head.read_bytes(4)) != b"TREE" or head.read_int(1) != kind:
        file.refuse(f"{place} has an invalid B-tree node")
    level, count = head.read_int(1), head.read_int(2)
    if level > _MAX_DEPTH:
        file.refuse(f"{place} has a B-tree of {level} levels")
    file.count(count)
    return level, count


def _text(names: bytes, start: int) -> str:
    end = names.find(b"\0", start)
    return names[start : end if end >= 0 else len(names)].decode("utf-8", "replace")
