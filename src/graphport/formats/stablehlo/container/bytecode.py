"""MLIR bytecode: sections, attributes, types and operations of the VHLO dialect in portable artifacts.

Source: MLIR's BytecodeFormat document; the codes of VHLO are defined in StableHLO's VhloBytecode.cpp.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphport.formats.stablehlo.container.cursor import Cursor
from graphport.formats.stablehlo.container.vhlo import VhloReader, stablehlo_attributes
from graphport.formats.stablehlo.container.vhlo_attributes import attribute_names
from graphport.formats.stablehlo.program import (
    Block,
    Function,
    Operation,
    OtherType,
    Program,
    Type,
    dictionary,
    elements_of,
)
from graphport.formats.stablehlo.recognition import MAGIC
from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from graphport.core.storage import Bytes, MappedFile

MAX_VERSION = 6
MAX_REGION_DEPTH = 64
_SECTIONS = {0: "strings", 1: "dialects", 2: "values", 3: "offsets", 4: "ir", 5: "resources", 8: "properties"}
_VERSIONED = re.compile(r"_v\d+$")
_STABLE = "regenerate the file as a portable artifact, with jax.export or serialize_portable_artifact"


def read_bytecode(file: MappedFile | Bytes, start: int, size: int) -> Program:
    """Read a portable artifact.

    Raises:
        RefusedError: SH0002 the file is damaged, or is bytecode of another dialect; SH0005 it has an unsupported type.
    """
    return _BytecodeReader(file, start, size).program()


class _BytecodeReader:
    """Reads one module."""

    def __init__(self, file: MappedFile | Bytes, start: int, size: int) -> None:
        self._cursor = Cursor(file, start, start + size)
        self._sections: dict[str, Cursor] = {}
        self._strings: list[tuple[int, int]] = []
        self._dialects: list[str] = []
        self._operations: list[tuple[str, str]] = []
        self._vhlo = VhloReader(self._string)
        self._properties: list[tuple[int, int]] = []
        self._keys = 0

    def program(self) -> Program:
        cursor = self._cursor
        if cursor.read_bytes(4) != MAGIC:
            refuse("SH0002", "not MLIR bytecode: the signature is missing")
        self._version = cursor.varint()
        producer = cursor.terminated()
        if self._version > MAX_VERSION:
            refuse(
                "SH0002",
                f"unsupported MLIR bytecode version {self._version}, the newest supported is {MAX_VERSION}",
                help=_STABLE,
            )
        while not cursor.is_done:
            self._section(cursor)
        for name in ("strings", "dialects", "values", "offsets", "ir"):
            if name not in self._sections:
                refuse(
                    "SH0002", f"missing bytecode section: {name}", help="restore the file: it is truncated or corrupt"
                )
        self._read_strings()
        self._read_dialects()
        if "vhlo" not in self._dialects:
            known = ", ".join(self._dialects) or "none"
            refuse(
                "SH0002", f"the bytecode is not a StableHLO portable artifact; its dialects are {known}", help=_STABLE
            )
        self._read_offsets()
        self._read_properties()
        functions = self._functions()
        return Program({function.name: function for function in functions}, {}, producer)

    def _section(self, cursor: Cursor) -> None:
        code, body = cursor.section()
        name = _SECTIONS.get(code)
        if name is not None:
            self._sections[name] = body

    # Strings, dialects, attributes and types

    def _read_strings(self) -> None:
        cursor = self._sections["strings"]
        count = cursor.count()
        sizes = [cursor.varint() for _ in range(count)]
        end = cursor.end
        for size in sizes:
            if size < 1 or end - size < cursor.position:
                refuse("SH0002", f"the {count} strings exceed their section", offset=cursor.position)
            self._strings.append((end - size, size - 1))
            end -= size
        self._strings.reverse()
        # The file lists the string lengths in reverse order.

    def _string(self, index: int) -> str:
        if not 0 <= index < len(self._strings):
            refuse("SH0002", f"string index {index} is out of range: {len(self._strings)}")
        start, size = self._strings[index]
        return bytes(self._cursor.file.view(start, size)).decode("utf-8", "replace")

    def _read_dialects(self) -> None:
        cursor = self._sections["dialects"]
        for _ in range(cursor.count()):
            name = cursor.varint()
            if self._version == 0:
                self._dialects.append(self._string(name))
                continue
            self._dialects.append(self._string(name >> 1))
            if name & 1:
                cursor.section()
        if self._version >= 4:
            cursor.varint()
        while not cursor.is_done:
            dialect = self._dialect(cursor.varint())
            for _ in range(cursor.count()):
                name = cursor.varint()
                self._operations.append((dialect, self._string(name >> 1 if self._version >= 5 else name)))

    def _dialect(self, index: int) -> str:
        if index >= len(self._dialects):
            refuse("SH0002", f"dialect index {index} is out of range: {len(self._dialects)}")
        return self._dialects[index]

    def _read_offsets(self) -> None:
        cursor, values = self._sections["offsets"], self._sections["values"]
        counts = [cursor.count(), cursor.count()]
        position = values.position
        for target, count in zip((self._vhlo.attribute_places, self._vhlo.type_places), counts, strict=True):
            while len(target) < count:
                dialect = self._dialect(cursor.varint())
                for _ in range(cursor.count()):
                    packed = cursor.varint()
                    size = packed >> 1
                    if position + size > values.end or len(target) >= count:
                        refuse("SH0002", "attributes and types exceed their section", offset=cursor.position)
                    target.append((dialect, bool(packed & 1), Cursor(cursor.file, position, position + size)))
                    position += size

    def _read_properties(self) -> None:
        cursor = self._sections.get("properties")
        if cursor is None:
            return
        for _ in range(cursor.count()):
            size = cursor.varint()
            self._properties.append((cursor.position, size))
            cursor.read_bytes(size)

    # Operations

    def _functions(self) -> list[Function]:
        """Read the functions of the module and of nested modules."""
        found: list[Function] = []
        for operation in self._block(self._sections["ir"], [], 0).operations:
            found += self._functions_of(operation)
        return found

    def _functions_of(self, operation: Operation) -> list[Function]:
        if operation.name in ("builtin.module", "module"):
            return [f for block in operation.regions for inner in block.operations for f in self._functions_of(inner)]
        if operation.name == "sdy.mesh":
            return []
        if operation.name != "func":
            refuse("SH0002", f"unexpected operation {operation.name} in a module", offset=operation.offset)
        attributes = operation.attributes
        type = attributes.get("function_type")
        name = attributes.get("sym_name")
        if not isinstance(type, OtherType) or not isinstance(name, str):
            refuse("SH0002", "a function without name or type", offset=operation.offset)
        body = operation.regions[0] if operation.regions else None
        return [
            Function(
                name,
                attributes.get("sym_visibility") != "private",
                body,
                list(type.results),
                [self._argument_names.get(key) for key, _ in body.arguments] if body is not None else [],
                _dictionaries(attributes.get("arg_attrs"), len(type.parts)),
                _dictionaries(attributes.get("res_attrs"), len(type.results)),
                operation.offset,
            )
        ]

    _argument_names: dict[int, str]

    def _block(self, cursor: Cursor, scope: list[int], depth: int, defined: list[int] | None = None) -> Block:
        """A block: its arguments and operations; `scope` has the keys of values by number."""
        if depth > MAX_REGION_DEPTH:
            refuse("SH0008", f"regions are nested more than {MAX_REGION_DEPTH} levels deep", offset=cursor.position)
        place = [0] if defined is None else defined
        if depth == 0:
            self._argument_names = {}
        header = cursor.varint()
        block = Block()
        if header & 1:
            self._arguments(cursor, block, scope, place)
            if self._version >= 3 and cursor.byte():
                _skip_use_orders(cursor, len(block.arguments))
        for _ in range(header >> 1):
            block.operations.append(self._operation(cursor, scope, place, depth))
        return block

    def _arguments(self, cursor: Cursor, block: Block, scope: list[int], place: list[int]) -> None:
        for _ in range(cursor.count()):
            packed = cursor.varint()
            has_location = True
            if self._version >= 4:
                has_location, packed = bool(packed & 1), packed >> 1
            type = self._vhlo.type(packed)
            key = self._define(scope, place, cursor)
            if has_location:
                name = self._vhlo.location_name(cursor.varint())
                if name:
                    self._argument_names[key] = name
            block.arguments.append((key, type))

    def _define(self, scope: list[int], place: list[int], cursor: Cursor) -> int:
        if place[0] >= len(scope):
            refuse("SH0002", "a region defines more values than it declares", offset=cursor.position)
        self._keys += 1
        scope[place[0]] = self._keys
        place[0] += 1
        return self._keys

    def _operation(self, cursor: Cursor, scope: list[int], place: list[int], depth: int) -> Operation:
        offset = cursor.position
        index = cursor.varint()
        if index >= len(self._operations):
            refuse("SH0002", f"operation index {index} is out of range: {len(self._operations)}", offset=offset)
        dialect, name = self._operations[index]
        mask = cursor.byte()
        cursor.varint()  # the location
        attributes: dict[str, Any] = {}
        if mask & 1:
            attributes = dict(dictionary(self._vhlo.attribute(cursor.varint())))
        if mask & 0x40:
            attributes |= self._own_attributes(dialect, name, cursor.varint())
        types: list[Type] = []
        if mask & 2:
            types = [self._vhlo.type(cursor.varint()) for _ in range(cursor.count())]
        operands: list[int] = []
        if mask & 4:
            operands = [self._operand(cursor, scope) for _ in range(cursor.count())]
        if mask & 8:
            refuse("SH0005", f"{dialect}.{name} has successor blocks", offset=offset)
        if mask & 0x20:
            _skip_use_orders(cursor, len(types))
        results = [self._define(scope, place, cursor) for _ in types]
        regions = self._regions(cursor, scope, depth) if mask & 0x10 else []
        if dialect == "vhlo":
            name = _VERSIONED.sub("", name)
            attributes = stablehlo_attributes(name, attributes)
        elif dialect != "func":
            name = f"{dialect}.{name}"
        return Operation(name, operands, results, types, attributes, regions, offset)

    def _own_attributes(self, dialect: str, name: str, index: int) -> dict[str, Any]:
        """Return the attributes of an operation of VHLO, stored as indices in the order of the names.

        Raises:
            RefusedError: SH0002 there are others than the operation has.
        """
        if dialect != "vhlo":
            return {}
        if index >= len(self._properties):
            refuse("SH0002", f"properties index {index} is out of range: {len(self._properties)}")
        start, size = self._properties[index]
        cursor = Cursor(self._cursor.file, start, start + size)
        found: list[Any] = []
        while not cursor.is_done:
            found.append(self._vhlo.attribute(cursor.varint()))
        names = attribute_names(_VERSIONED.sub("", name), len(found))
        if names is None:
            refuse("SH0002", f"{name} has {len(found)} attributes that do not match its definition", offset=start)
        return dict(zip(names, found, strict=True))

    def _operand(self, cursor: Cursor, scope: list[int]) -> int:
        number = cursor.varint()
        if number >= len(scope) or not scope[number]:
            refuse("SH0004", f"value {number} is used before it is defined", offset=cursor.position)
        return scope[number]

    def _regions(self, cursor: Cursor, scope: list[int], depth: int) -> list[Block]:
        packed = cursor.varint()
        is_isolated = bool(packed & 1)
        if packed >> 1 > cursor.remaining_bytes:
            refuse("SH0002", f"an operation has too many regions: {packed >> 1}", offset=cursor.position)
        if is_isolated and self._version >= 2:
            code, cursor = cursor.section()
            if _SECTIONS.get(code) != "ir":
                refuse("SH0002", "a region outside of a section of operations", offset=cursor.position)
        return [self._region(cursor, [] if is_isolated else scope, depth + 1) for _ in range(packed >> 1)]

    def _region(self, cursor: Cursor, scope: list[int], depth: int) -> Block:
        blocks = cursor.varint()
        if blocks == 0:
            return Block()
        if blocks > 1:
            refuse(
                "SH0005",
                "a region has several blocks",
                help="use structured control flow: StableHLO has no branches between blocks",
                offset=cursor.position,
            )
        values = cursor.count()
        outer = len(scope)
        scope.extend([0] * values)
        block = self._block(cursor, scope, depth, [outer])
        del scope[outer:]
        return block


def _dictionaries(value: Any, count: int) -> list[dict[str, Any]]:
    found = [dictionary(item) for item in elements_of(value)]
    return (found + [{}] * count)[:count]


def _skip_use_orders(cursor: Cursor, count: int) -> None:
    """Skip the use-list orders of `count` values. The index of the value is omitted if there is one value."""
    values = cursor.count() if count > 1 else 1
    for _ in range(values):
        if count > 1:
            cursor.varint()
        for _ in range(cursor.varint() >> 1):
            cursor.varint()
