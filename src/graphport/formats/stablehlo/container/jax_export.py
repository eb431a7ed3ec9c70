"""Files of jax.export: a flatbuffer around a portable artifact, with pytrees and symbolic shapes of the arguments.

Source: `serialization.fbs` of JAX, versions 2 to 11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.dims import parse_dim
from graphport.formats.stablehlo.recognition import MAGIC
from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from graphport.core.dims import Dim, Extents
    from graphport.core.storage import Bytes, MappedFile

MAX_TREE_NODES = 1_000_000
_DICT = 4
"""The code of a dictionary in a tree."""
_FIELDS = {
    "in_tree": 2,
    "in_avals": 3,
    "devices_short": 6,
    "platforms": 9,
    "module": 13,
    "kept": 15,
    "devices": 18,
    "unique_avals": 19,
    "in_avals_indices": 22,
}
"""Numbers of the fields of the root table."""
_FLOOR = re.compile(r"(floordiv|mod)\(([^(),]+), ([^(),]+)\)")


class _Table:
    """A table of a flatbuffer; offsets outside the file are refused."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._position = position
        self._fields = position - self.integer(position, 4, signed=True)
        self._size = self.integer(self._fields, 2)
        if self._size < 4:
            refuse("SH0003", "a table of the flatbuffer has no fields", offset=position)

    def integer(self, position: int, size: int, *, signed: bool = False) -> int:
        """A number at a position of the file."""
        if not 0 <= position <= len(self._data) - size:
            refuse(
                "SH0003",
                "an offset of the flatbuffer is outside the file",
                help="restore the file: it is truncated or corrupt",
            )
        return int.from_bytes(self._data[position : position + size], "little", signed=signed)

    def _field(self, index: int) -> int | None:
        """The position of a field, `None` where it is absent."""
        entry = 4 + 2 * index
        offset = self.integer(self._fields + entry, 2) if entry + 2 <= self._size else 0
        return self._position + offset if offset else None

    def scalar(self, index: int, size: int, default: int = 0) -> int:
        """A number."""
        position = self._field(index)
        return default if position is None else self.integer(position, size)

    def vector(self, index: int, size: int) -> tuple[int, int] | None:
        """Where a vector of items of `size` bytes begins, and its length."""
        position = self._field(index)
        if position is None:
            return None
        start = position + self.integer(position, 4)
        count = self.integer(start, 4)
        if start + 4 + count * size > len(self._data):
            refuse(
                "SH0003",
                f"a vector of {count} items exceeds the file",
                help="restore the file: it is truncated or corrupt",
            )
        return start + 4, count

    def integers(self, index: int, size: int) -> list[int] | None:
        """Return the integers of a vector."""
        found = self.vector(index, size)
        if found is None:
            return None
        start, count = found
        return [self.integer(start + size * k, size) for k in range(count)]

    def table(self, index: int) -> _Table | None:
        """Return a nested table."""
        position = self._field(index)
        return None if position is None else _Table(self._data, position + self.integer(position, 4))

    def tables(self, index: int) -> list[_Table] | None:
        """Return a vector of nested tables."""
        found = self.vector(index, 4)
        if found is None:
            return None
        start, count = found
        places = [start + 4 * k for k in range(count)]
        return [_Table(self._data, place + self.integer(place, 4)) for place in places]

    def strings(self, index: int) -> list[str]:
        """A vector of strings."""
        found = self.vector(index, 4)
        if found is None:
            return []
        start, count = found
        return [self._string(start + 4 * k) for k in range(count)]

    def _string(self, place: int) -> str:
        start = place + self.integer(place, 4)
        size = self.integer(start, 4)
        if start + 4 + size > len(self._data):
            refuse("SH0003", "a string exceeds the file", help="restore the file: it is truncated or corrupt")
        return bytes(self._data[start + 4 : start + 4 + size]).decode("utf-8", "replace")


@dataclass(frozen=True)
class Exported:
    """The signature of an exported function, and where its module is in the file."""

    start: int
    size: int
    platforms: tuple[str, ...]
    names: tuple[str, ...]
    shapes: tuple[tuple[str, ...] | None, ...]
    kept_indices: tuple[int, ...] | None

    @property
    def platform_index(self) -> int:
        """Index of the CPU in the list of platforms; 0 if it is not listed."""
        return self.platforms.index("cpu") if "cpu" in self.platforms else 0

    def has_platform_argument(self, count: int) -> bool:
        """Whether a function of `count` arguments has the index of the platform as its first one."""
        return len(self.platforms) > 1 and count == len(self.kept_arguments()) + 1

    def kept_arguments(self) -> list[int]:
        """The arguments that the module has: unused ones are dropped."""
        return list(range(len(self.shapes))) if self.kept_indices is None else list(self.kept_indices)

    def argument_name(self, index: int) -> str | None:
        """Return the name of an argument: its path in the tree of arguments."""
        return self.names[index] if index < len(self.names) else None

    def dims(self, index: int, extents: Extents) -> tuple[Dim, ...] | None:
        """The shape of an argument, symbols declared."""
        texts = self.shapes[index] if index < len(self.shapes) else None
        return None if texts is None else tuple(_dim(text, extents) for text in texts)


def _dim(text: str, extents: Extents) -> Dim:
    """A number, a symbol, or an expression of symbols as JAX prints it."""
    before = None
    while before != text:
        before = text
        text = _FLOOR.sub(lambda m: f"(({m[2]}){'//' if m[1] == 'floordiv' else '%'}({m[3]}))", text)
    if text.isidentifier():
        return extents.declare(text)
    try:
        return parse_dim(text)
    except ValueError as error:
        refuse("SH0003", f"invalid dim {text[:40]!r}: {error}")


def read_export(file: MappedFile | Bytes) -> Exported:
    """Read the signature of a file of jax.export.

    Raises:
        RefusedError: SH0003 the file is damaged, or runs on several devices.
    """
    data = file.view(0, file.size)
    root = _Table(data, int.from_bytes(data[:4], "little"))
    devices = root.scalar(_FIELDS["devices"], 4) or root.scalar(_FIELDS["devices_short"], 2)
    if devices > 1:
        refuse(
            "SH0003", f"unsupported: the function requires {devices} devices", help="export the function for one device"
        )
    module = root.vector(_FIELDS["module"], 1)
    if module is None or bytes(data[module[0] : module[0] + 4]) != MAGIC:
        refuse("SH0003", "the file has no MLIR bytecode module", help="jax.export.export(...)(...).serialize()")
    avals = root.tables(_FIELDS["in_avals"])
    indices = root.integers(_FIELDS["in_avals_indices"], 4)
    unique = root.tables(_FIELDS["unique_avals"])
    if unique is not None and indices is not None:
        if any(index >= len(unique) for index in indices):
            refuse("SH0003", f"the type index of an argument is out of range: {len(unique)}")
        avals = [unique[index] for index in indices]
    shapes = tuple(tuple(aval.strings(1)) if aval.vector(1, 4) is not None else () for aval in avals or [])
    kept = root.integers(_FIELDS["kept"], 2)
    if kept is not None and (any(index >= len(shapes) for index in kept) or len(set(kept)) != len(kept)):
        refuse("SH0003", f"the kept arguments {kept[:8]} are out of range: the function has {len(shapes)}")
    tree = root.table(_FIELDS["in_tree"])
    names = [] if tree is None else _names(tree)
    return Exported(
        module[0],
        module[1],
        tuple(root.strings(_FIELDS["platforms"])),
        tuple(names),
        shapes,
        None if kept is None else tuple(kept),
    )


def _names(tree: _Table) -> list[str]:
    """Names of the leaves: keys of dictionaries and indices of lists below the arguments, as `args.0.w`."""
    found: list[str] = []
    pending: list[tuple[_Table, str, int]] = [(tree, "", 0)]
    while pending:
        node, name, depth = pending.pop()
        kind = node.scalar(0, 1)
        if len(found) > MAX_TREE_NODES or depth > 200:
            refuse("SH0003", "the argument tree exceeds the size limit")
        if kind == 0:
            found.append(name)
            continue
        children = node.tables(1) or []
        keys = node.strings(2) if kind == _DICT else []
        for index in reversed(range(len(children))):
            key = keys[index] if index < len(keys) else str(index)
            pending.append((children[index], _below(name, key, depth), depth + 1))
    return found


def _below(name: str, key: str, depth: int) -> str:
    """The name of a child: the root is a pair of positional and of named arguments."""
    if depth == 0:
        return "args" if key == "0" else ""
    if name == "args":
        return f"arg{key}"
    return f"{name}.{key}" if name else key
