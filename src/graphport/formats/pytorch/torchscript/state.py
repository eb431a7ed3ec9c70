"""Modules, attributes and weights of an archive, converted to evaluator values on first access."""

from __future__ import annotations

import ast
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import Bytes, FileStorage
from graphport.formats.pytorch.pt2.schema import SchemaError
from graphport.formats.pytorch.pt2.weights import Layout, tensor
from graphport.formats.pytorch.torchscript.packed import packed
from graphport.formats.pytorch.torchscript.pickles import (
    CPP_CLASSES,
    Instance,
    Member,
    QuantizedTensor,
    Tagged,
    is_tensor,
    unpickled,
)
from graphport.formats.pytorch.torchscript.pickles import Tensor as Pickled
from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.syntax import ClassText
from graphport.formats.pytorch.torchscript.values import Dict, List, Object, Quantized, Tensor
from graphport.ops.constant_folding import Computed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.pytorch.pt2.container import Container
    from graphport.formats.pytorch.torchscript.context import Context
    from graphport.formats.pytorch.torchscript.syntax import Texts
    from graphport.ir.graph import Value

MAX_DEPTH = 200
"""Maximum nesting of containers and modules."""
NEWEST_VERSION = 10
_SWAPPED = b"big"


class State:
    """Modules, attributes and constants of one archive."""

    def __init__(self, container: Container, texts: Texts) -> None:
        self.container = container
        self.texts = texts
        self.version = _version(container)
        self.root = self._pickle("data.pkl", Instance)
        self.paths = _paths(self.root)
        self.evaluator: Context | None = None
        self.written: dict[tuple[Object, str], Value] = {}
        """Tensor attributes that the code sets, and the weights that they are in the file."""
        self._constants: tuple[Any, ...] = (
            tuple(self._pickle("constants.pkl", tuple | list)) if "constants.pkl" in container else ()
        )
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []
        self._placed: dict[str, tuple[MappedFile | Bytes, int, int]] = {}
        self._by_storage: dict[str, list[Value]] = {}
        self._members: dict[tuple[str, str], Object] = {}
        self._is_swapped = "byteorder" in container and container.read("byteorder").strip() == _SWAPPED

    def _pickle(self, member: str, expected: Any) -> Any:
        try:
            found = unpickled(self.container.read(member))
        except SchemaError as error:
            refuse("TS0003", f"{member}: {error}", help="write the file again with torch.jit.save")
        if isinstance(found, Tagged):
            found = found.value
        if not isinstance(found, expected):
            refuse(
                "TS0003",
                (
                    f"malformed TorchScript archive: {member} does not contain a "
                    f"{'module' if expected is Instance else 'tuple of constants'}"
                ),
            )
        return found

    @property
    def module(self) -> Object:
        """The root module."""
        return self.lift(self.root, "")

    # Values

    def lifted(self, owner: Object, name: str) -> Any:
        """Return an attribute as a value of the evaluator."""
        raw = owner.attributes[name]
        if not isinstance(raw, Instance | Member | Tagged | dict | list | tuple) and not is_tensor(raw):
            return raw
        path = f"{owner.path}.{name}" if owner.path else name
        owner.attributes[name] = found = self.lift(raw, path)
        return found

    def constant(self, name: str) -> Any:
        """Return `CONSTANTS.c0` and so on; a constant of rank 0 is a scalar in type promotion."""
        index = int(name[1:]) if name[:1] == "c" and name[1:].isdecimal() else -1
        if not 0 <= index < len(self._constants):
            refuse("TS0005", f"the code reads CONSTANTS.{name}, but the archive has {len(self._constants)} constants")
        raw = self._constants[index]
        found = self.lift(raw, f"constants.{name}", folder="constants")
        if isinstance(found, Tensor) and isinstance(raw, Pickled) and not raw.sizes and found.literal is None:
            storage = found.value.storage
            if storage is not None and storage.dtype.kind in "fiubc":
                number = storage.numpy().reshape(()).item()
                found.literal = bool(number) if storage.dtype.kind == "b" else number
        return found

    def lift(self, raw: Any, path: str, depth: int = 0, folder: str = "data") -> Any:
        """Convert a value of a pickle to a value of the evaluator; object identity is preserved.

        Raises:
            RefusedError: TS0003 the pickle is corrupt, TS0005 a class is missing in the archive.
        """
        if depth > MAX_DEPTH:
            refuse("TS0003", f"objects are nested more than {MAX_DEPTH} levels deep")
        if isinstance(raw, Tagged):
            return self.lift(raw.value, path, depth, folder)
        if raw is None or isinstance(raw, bool | int | float | str | complex):
            return raw
        if id(raw) not in self._made:
            self._kept.append(raw)
            self._lift(raw, path, depth, folder)
        return self._made[id(raw)]

    def _lift(self, raw: Any, path: str, depth: int, folder: str) -> None:
        key = id(raw)
        if isinstance(raw, Pickled):
            self._made[key] = Tensor(self._weight(raw, path, folder))
        elif isinstance(raw, QuantizedTensor):
            self._made[key] = self._quantized(raw, path, folder)
        elif isinstance(raw, Member):
            self._made[key] = self._member(raw, path)
        elif isinstance(raw, Instance):
            self._instance(raw, path, depth, folder)
        elif isinstance(raw, tuple):
            items = cast("tuple[Any, ...]", raw)
            self._made[key] = tuple([self.lift(x, f"{path}.{i}", depth + 1, folder) for i, x in enumerate(items)])
        elif isinstance(raw, list):
            made = self._made[key] = List()
            made.items = [self.lift(x, f"{path}.{i}", depth + 1, folder) for i, x in enumerate(cast("list[Any]", raw))]
        elif isinstance(raw, dict):
            made = self._made[key] = Dict()
            pairs = cast("dict[Any, Any]", raw).items()
            made.items = {k: self.lift(x, f"{path}.{k}", depth + 1, folder) for k, x in pairs}
        else:
            refuse("TS0003", f"{path} is a {type(raw).__name__}, which is not supported in a module")

    def _instance(self, raw: Instance, path: str, depth: int, folder: str) -> None:
        if raw.type.startswith(CPP_CLASSES):
            state = self.lift(raw.state, path, depth + 1, folder)
            self._made[id(raw)] = packed(raw.type.removeprefix(CPP_CLASSES), state)
            return
        found = self.texts.find(raw.type)
        if not isinstance(found, ClassText):
            refuse("TS0005", f"undefined class {raw.type} of {path or 'the root'}")
        made = self._made[id(raw)] = Object(found, {}, self.paths.get(id(raw), path))
        if "__setstate__" in found.methods and self.evaluator is not None:
            self.evaluator.call_method(made, "__setstate__", [self.lift(raw.state, path, depth + 1, folder)], {})
            self.written = {k: v for k, v in self.written.items() if k[0] is not made}
        elif raw.attributes is not None:
            made.attributes = {str(name): value for name, value in raw.attributes.items()}
        elif raw.state is not None:
            refuse("TS0003", f"the state of {path or 'the root'} is a {type(raw.state).__name__}, expected attributes")

    def _member(self, raw: Member, path: str) -> Object:
        """Return the enum member with the pickled value."""
        owner, evaluator = self.texts.find(raw.type), self.evaluator
        if not isinstance(owner, ClassText) or evaluator is None:
            refuse("TS0005", f"undefined class {raw.type} of {path}")
        for name, constant in owner.constants.items():
            value = evaluator.expression(constant, {})
            if type(value) is type(raw.value) and value == raw.value:
                return self.enumerated(owner, name, value)
        refuse("TS0003", f"{path}: {raw.type} has no member with the value {raw.value!r}")
        return Object(owner, {})

    def enumerated(self, owner: ClassText, name: str, value: Any) -> Object:
        """Return an enum member by name and value."""
        key = owner.name, name
        if key not in self._members:
            self._members[key] = Object(owner, {"name": name, "value": value})
        return self._members[key]

    # Weights

    def _weight(self, raw: Pickled, path: str, folder: str) -> Value:
        evaluator = self.evaluator
        if evaluator is None:
            refuse("TS0003", f"unexpected tensor {path}")
        scope, evaluator.emitter.scope = evaluator.emitter.scope, ""
        try:
            value = evaluator.emitter.constant(self.storage(raw, path, folder), name=path)
        finally:
            evaluator.emitter.scope = scope
        same = self._by_storage.setdefault(f"{folder}/{raw.storage.key}", [])
        same.append(value)
        if len(same) > 1:
            evaluator.emitter.shared.update(same)
        return value

    def storage(self, raw: Pickled, path: str, folder: str = "data") -> Storage:
        """Return the elements of a tensor as a view of the file.

        Raises:
            RefusedError: TS0003 the sizes exceed the storage.
        """
        key = raw.storage.key
        if not key.removesuffix(".storage").isalnum():
            refuse("TS0003", f"{path}: invalid storage name {key[:40]!r}")
        if min((raw.offset, *raw.sizes, *raw.strides)) < 0 or len(raw.sizes) != len(raw.strides):
            refuse("TS0003", f"{path}: negative size, stride or offset")
        member = f"{folder}/{key}"
        if member not in self._placed:
            self._placed[member] = self._swapped(self.container.placed(member), raw)
        if raw.storage.dtype is DType.UINT4:
            return self._nibbles(raw, path, self._placed[member])
        if raw.storage.length * (raw.storage.dtype.bits // 8) > self._placed[member][2]:
            have = self._placed[member][2]
            refuse("TS0003", f"{path}: its storage has {raw.storage.length} elements, but {member} has {have} bytes")
        try:
            return tensor(self._placed[member], Layout(raw.storage.dtype, raw.sizes, raw.strides, raw.offset))
        except SchemaError as error:
            refuse("TS0003", f"{path}: {error}")

    def _nibbles(self, raw: Pickled, path: str, placed: tuple[MappedFile | Bytes, int, int]) -> Storage:
        """Return 4-bit elements, two per byte, low nibble first."""
        file, start, length = placed
        layout = Layout(DType.UINT8, raw.sizes, raw.strides, raw.offset)
        if not layout.is_contiguous or raw.offset or prod(raw.sizes) > 2 * length:
            refuse("TS0003", f"{path}: its 4-bit elements exceed {length} bytes or are not contiguous")
        packed_bytes = FileStorage(file, start, DType.UINT8, (length,))
        return Computed(partial(_unpacked, raw.sizes), (packed_bytes,), DType.UINT8, raw.sizes)

    def _swapped(
        self, placed: tuple[MappedFile | Bytes, int, int], raw: Pickled
    ) -> tuple[MappedFile | Bytes, int, int]:
        """Return the elements of a big-endian file in little-endian order."""
        width = raw.storage.dtype.bits // 8
        if not self._is_swapped or width < 2:
            return placed
        if raw.storage.dtype.kind == "c":
            width //= 2
        file, start, length = placed
        array = np.frombuffer(file.view(start, length - length % width), f">u{width}")
        return Bytes(array.astype(f"<u{width}").tobytes()), 0, length - length % width

    def _quantized(self, raw: QuantizedTensor, path: str, folder: str) -> Quantized:
        codes = Tensor(self._weight(raw.tensor, path, folder))
        dtype = {"int8": 12, "uint8": 13, "int32": 14, "uint4": 16}[raw.tensor.storage.dtype.text]
        if raw.parameters[0] == "per_tensor":
            return Quantized(codes, raw.parameters[1], raw.parameters[2], None, dtype)
        scales, zeros = (
            Tensor(self._weight(raw.parameters[i], f"{path}.{n}", folder))
            for i, n in ((1, "scales"), (2, "zero_points"))
        )
        return Quantized(codes, scales, zeros, raw.parameters[3], dtype)

    # Attributes that the code sets

    def note_write(self, owner: Object, name: str, value: Any) -> None:
        """Record an assignment to a tensor attribute of a module."""
        if not isinstance(value, Tensor) or name not in owner.attributes or (owner, name) in self.written:
            return
        before = self.lifted(owner, name)
        if isinstance(before, Tensor) and before.value.is_constant:
            self.written[owner, name] = before.value

    def changed(self) -> list[tuple[Value, Tensor]]:
        """Return the weights whose attributes were reassigned, with the new tensors."""
        found: list[tuple[Value, Tensor]] = []
        for (owner, name), before in self.written.items():
            after = owner.attributes[name]
            if isinstance(after, Tensor) and after.value is not before:
                found.append((before, after))
        return found

    def set_names(self) -> set[str]:
        """Return the names of attributes that methods other than `__setstate__` and `__init__` assign."""
        found: set[str] = set()
        for member in self.texts.members():
            for text in self.texts.definitions(member).values():
                methods = text.methods.values() if isinstance(text, ClassText) else [text]
                for method in methods:
                    if not method.name.endswith(("__setstate__", "__init__")):
                        found.update(_targets(method.body))
        return found


def _unpacked(sizes: tuple[int, ...], array: Any) -> Any:
    return np.stack([array & 15, array >> 4], -1).reshape(-1)[: prod(sizes)].reshape(sizes)


def _targets(body: tuple[ast.stmt, ...]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def _version(container: Container) -> int:
    """Return the version record, which selects the semantics of changed operators.

    Raises:
        RefusedError: TS0002 the version is not a number, or newer than the supported ones.
    """
    member = "version" if "version" in container else ".data/version"
    text = container.read(member).strip() if member in container else b"3"
    if not text.isdigit() or len(text) > 9:
        refuse("TS0002", f"the version record is {text[:20]!r}, not a number")
    version = int(text)
    if version > NEWEST_VERSION:
        refuse(
            "TS0002",
            f"the file has version {version}, the newest supported version is {NEWEST_VERSION}",
            help="update graphport",
        )
    return version


def _paths(root: Instance) -> dict[int, str]:
    """Return the first path of each module below the root, by identity."""
    found: dict[int, str] = {id(root): ""}
    pending = [root]
    while pending:
        current = pending.pop(0)
        for name, value in (current.attributes or {}).items():
            if isinstance(value, Instance) and id(value) not in found:
                above = found[id(current)]
                found[id(value)] = f"{above}.{name}" if above else str(name)
                pending.append(value)
    return found
