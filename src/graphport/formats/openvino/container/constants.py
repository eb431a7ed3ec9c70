"""Const layers: pieces of the `.bin`, each checked against its size before anything is read."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from graphport.core import budget
from graphport.core.facts import TensorFact, has_known_elements
from graphport.core.storage import FileStorage
from graphport.formats.openvino.container import elements, weights
from graphport.formats.openvino.container.notes import KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.dtypes import DType
    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.openvino.container.findings import Findings
    from graphport.formats.openvino.container.xml import Element
    from graphport.ir.graph import Graph, Value

_NEEDED = ("element_type", "shape", "offset", "size")
_NEEDED_SET = frozenset(_NEEDED)
_NUMBER = re.compile(r"\s*\+?(\d{1,40})\s*")
_DIGITS = re.compile(r"[0-9]{1,40}")
_MOST_DIMS = 1 << 16
_MOST_KINDS = 4096


class _ConstantKind(NamedTuple):
    """Properties shared by constants whose attributes `element_type` and `shape` have equal text."""

    dtype: DType
    shape: tuple[int, ...]
    nbytes: int
    fact: TensorFact | None
    """`None` if each constant has its own fact with its elements."""


class Constants:
    """The constants of one file."""

    def __init__(self, findings: Findings, file: MappedFile | None) -> None:
        self._findings = findings
        self._file = file
        self.count = 0
        self._facts: dict[TensorFact, TensorFact] = {}
        self._shapes: dict[str, tuple[int, ...] | None] = {}
        self._kinds: dict[tuple[str | None, str | None], _ConstantKind] = {}

    def fill(self, graph: Graph, layer: Element, results: list[Value]) -> None:
        """Make the value of a Const layer a constant of `graph`."""
        if len(results) != 1:
            self._findings.error("OV0109", "a Const requires exactly one output port", layer)
            return
        (value,) = results
        value.notes[KEY] = layer
        value.origin = self._findings.deferred_location(layer)
        data = layer.child("data")
        stated = {} if data is None else data.attributes
        self.count += 1
        if not self._fill_again(value, stated):
            value.storage = self._storage(layer, stated)
            if value.storage is not None:
                fact = TensorFact.of(value.storage)
                # Equal constants share one fact: shape inference compares identities first.
                value.fact = self._facts.setdefault(fact, fact)
                self._learn(value.storage, value.fact, stated)
        graph.adopt_constant(value)

    def _fill_again(self, value: Value, stated: Mapping[str, str]) -> bool:
        """Fill a constant whose element type and shape occurred before; return whether that succeeded."""
        kind = self._kinds.get((stated.get("element_type"), stated.get("shape")))
        if kind is None or self._file is None:
            return False
        offset, size = stated.get("offset", ""), stated.get("size", "")
        if not _DIGITS.fullmatch(offset) or not _DIGITS.fullmatch(size):
            return False
        start, length = int(offset), int(size)
        if kind.nbytes > length or start + length > self._file.size:
            return False
        value.storage = FileStorage(self._file, start, kind.dtype, kind.shape)
        if kind.fact is None:
            fact = TensorFact.of(value.storage)
            value.fact = self._facts.setdefault(fact, fact)
        else:
            value.fact = kind.fact
        return True

    def _learn(self, storage: Storage, fact: TensorFact, stated: Mapping[str, str]) -> None:
        """Cache the dtype, shape and fact of constants with this spelling of element type and shape."""
        if type(storage) is FileStorage and len(self._kinds) < _MOST_KINDS:
            dtype, shape = storage.dtype, storage.shape
            known = None if has_known_elements(dtype, shape) else fact
            self._kinds[stated["element_type"], stated["shape"]] = _ConstantKind(dtype, shape, storage.nbytes, known)

    def _storage(self, layer: Element, stated: Mapping[str, str]) -> Storage | None:
        if not stated.keys() >= _NEEDED_SET:
            missing = [name for name in _NEEDED if name not in stated]
            self._findings.error(
                "OV0202",
                f"missing attributes of Const: {', '.join(missing)}",
                layer,
                "add them: a Const requires element_type, shape, offset and size",
            )
            return None
        name = stated["element_type"].lower()
        if elements.storage_dtype(name) is None:
            self._findings.error(
                "OV0203", f"element_type {name[:60]!r} is not supported for a Const", layer, "say f32, i64, …"
            )
            return None
        text = stated["shape"]
        if text not in self._shapes:
            self._shapes[text] = _shape(text)
        shape = self._shapes[text]
        start, size = _parse_int(stated["offset"]), _parse_int(stated["size"])
        for what, found in (("shape", shape), ("offset", start), ("size", size)):
            if found is None:
                self._findings.error(
                    "OV0303",
                    f"{what} {stated[what][:60]!r} is not an integer of 0 or more",
                    layer,
                    "set it to a byte count",
                )
        if shape is None or start is None or size is None:
            return None
        return self._checked(layer, name, shape, start, size)

    def _checked(self, layer: Element, name: str, shape: tuple[int, ...], start: int, size: int) -> Storage | None:
        count = prod(shape)
        needed = weights.length_of(name, count)
        if not budget.fits_in_memory(shape):
            message = f"shape {list(shape)} exceeds the addressable memory"
            self._findings.error("OV0304", message, layer, "correct the shape or the size")
            return None
        if needed is not None and needed > size:
            message = f"{budget.shown(count)} elements of {name} take {budget.shown(needed)} bytes, but size is {size}"
            self._findings.error("OV0304", message, layer, "correct the shape or the size")
            return None
        if self._file is None:
            if size == 0 and needed == 0:
                return weights.nothing(name, shape)
            self._findings.error(
                "OV0301",
                "missing weight file: the constant's data is in a .bin file",
                layer,
                "place the .bin next to the .xml, with the same stem",
            )
            return None
        if start + size > self._file.size:
            message = f"truncated weight file: bytes {start} to {start + size} expected, the .bin has {self._file.size}"
            self._findings.error(
                "OV0302", message, layer, "restore the .bin: it is truncated or belongs to another model"
            )
            return None
        try:
            return weights.storage(self._file, start, size, name, shape)
        except weights.CorruptFileError as error:
            self._findings.error("OV0305", f"corrupt string data: {error}", layer, "write the model again")
            return None


def _shape(text: str) -> tuple[int, ...] | None:
    if not text.strip():
        return ()
    dims = text.removesuffix(",").split(",", _MOST_DIMS)
    if len(dims) > _MOST_DIMS:
        return None
    numbers = [_parse_int(dim) for dim in dims]
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else None


def _parse_int(text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    return None if match is None else int(match[1])
