"""Value numbering over two graphs: values that equal nodes compute from matched values share a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.element_digest import have_equal_elements
from graphport.core.storage import Storage
from graphport.ir.graph import Graph
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from graphport.ir.attributes import Attribute
    from graphport.ir.graph import Node, Value

MAX_COMPARED = 1 << 33
"""Bytes of constants that are compared; constants beyond are equal only if their storage is the same object."""
_SAMPLE = 64
"""Bytes at the start of a constant that select the constants that it is compared with."""


class Numbering:
    """Global value numbering of several graphs: the key is operator, attributes, constant data and operand numbers.

    With `splits_gemm`, Gemm with factors of 1 has the number of the equivalent MatMul and Add.
    """

    def __init__(self, *, splits_gemm: bool = False) -> None:
        self._splits_gemm = splits_gemm
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Value, int] = {}
        self._left = MAX_COMPARED
        self._storages: dict[Hashable, list[Storage]] = {}
        self.structure: dict[Value, int] = {}
        """The number of a value by how it is computed, also where `assign` gave it another one."""

    def assign(self, values: Iterable[Value], key: Hashable) -> None:
        """Give values the number of `key`, however they are computed."""
        number = self._intern_key(key)
        self._known.update((value, number) for value in values)

    def add(self, graph: Graph, depth: int = 0) -> None:
        """Number the values of a graph whose inputs are numbered; bodies belong to the key of their node."""
        for node in graph:
            key = (self._splits_gemm and self._formula(node)) or self._key(node, depth)
            for index, value in enumerate(node.outputs):
                if value is not None:
                    self.structure[value] = number = self._intern_key((key, index))
                    self._known.setdefault(value, number)

    def of(self, value: Value) -> int:
        """The number of a value; a value that no graph has numbered is equal to itself only."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._intern_key(self._constant(value))
        return known

    def _intern_key(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _key(self, node: Node, depth: int) -> Hashable:
        operands = tuple(None if value is None else self.of(value) for value in node.inputs)
        op_def = registry.op_defs().get(node.op)
        if op_def is not None and op_def.is_random:
            return node
        count = len(node.outputs) if op_def is None or op_def.is_variadic_output else 0
        graphs = [(name, body) for name, body in sorted(node.attributes.items()) if isinstance(body, Graph)]
        bodies = tuple((name, self._body(body, depth + 1)) for name, body in graphs)
        return (node.op, count, operands, self._attributes(node), bodies)

    def _formula(self, node: Node) -> Hashable:
        """Return the key of a node of which Gemm consists, and of Gemm with factors of 1; `None` of other nodes."""
        if node.op not in {"Gemm", "MatMul", "Add", "Transpose"}:
            return None
        numbers = [self.of(value) for value in node.operands]
        attributes = dict(self._attributes(node))
        match node.op:
            case "MatMul":
                return ("MatMul", *numbers)
            case "Add":
                return ("Add", *sorted(numbers))
            case "Transpose":
                is_matrix = node.operands[0].shape is not None and len(node.operands[0].shape) == 2
                return ("Transpose", *numbers) if is_matrix and attributes.get("perm", (1, 0)) == (1, 0) else None
            case _:
                if (attributes["alpha"], attributes["beta"], attributes["transA"]) != (1.0, 1.0, 0):
                    return None
                x, w, *bias = numbers
                w = self._intern_key((("Transpose", w), 0)) if attributes["transB"] else w
                product = ("MatMul", x, w)
                return ("Add", *sorted((self._intern_key((product, 0)), *bias))) if bias else product

    def _body(self, body: Graph, depth: int) -> Hashable:
        for index, value in enumerate(body.inputs):
            self.assign([value], ("input of a body", depth, index))
        self.add(body, depth)
        return tuple(self.of(value) for value in body.outputs)

    def _attributes(self, node: Node) -> tuple[tuple[str, Hashable], ...]:
        """Attributes with the defaults of the operator filled in, floats in single precision."""
        op_def = registry.op_defs().get(node.op)
        keywords = {} if op_def is None else op_def.signature.keywords
        found: dict[str, Any] = {name: keyword.default for name, keyword in keywords.items() if not keyword.is_required}
        found |= dict(node.stated)
        if "kernel_shape" in found:
            found |= _window_defaults(node)
        plain = ((name, self._freeze(attribute)) for name, attribute in sorted(found.items()) if attribute is not None)
        return tuple(item for item in plain if item[1] is not None)

    def _freeze(self, attribute: Any) -> Hashable:
        match attribute:
            case Graph():
                return None
            case Storage():
                return self._storage(attribute)
            case float():
                return float(np.float32(attribute))
            case tuple():
                return tuple(self._freeze(item) for item in attribute)  # pyright: ignore[reportUnknownVariableType]
            case _:
                return attribute

    def _constant(self, value: Value) -> Hashable:
        return value if value.storage is None else self._storage(value.storage)

    def _storage(self, storage: Storage) -> Hashable:
        if storage.nbytes > self._left:
            return id(storage)
        self._left -= storage.nbytes
        sample = next((bytes(block[:_SAMPLE]) for block in storage.chunks(_SAMPLE)), b"")
        bucket = (storage.dtype, tuple(storage.shape), sample)
        equal = self._storages.setdefault(bucket, [])
        index = next((n for n, each in enumerate(equal) if have_equal_elements(each, storage)), len(equal))
        equal += [storage] if index == len(equal) else []
        return (*bucket, index)


def _window_defaults(node: Node) -> dict[str, Any]:
    """Return the attributes of a window that have the values of absent ones, as `None`."""
    weight = node.operand(1) if node.op in {"Conv", "ConvTranspose"} else None
    kernel = None if weight is None or weight.shape is None else weight.shape[2:]
    stated = node.stated
    found = [name for name in ("strides", "dilations") if _has_only(stated.get(name), 1)]
    found += ["pads"] if _has_only(stated.get("pads"), 0) else []
    found += ["kernel_shape"] if stated.get("kernel_shape") == kernel else []
    return dict.fromkeys(found)


def _has_only(attribute: Attribute | None, number: int) -> bool:
    return isinstance(attribute, tuple) and all(each == number for each in attribute)


def number_pair(a: Graph, b: Graph, pairs: Mapping[Value, Value], *, splits_gemm: bool = False) -> Numbering:
    """Number two graphs; the values in `pairs` (of `a` by values of `b`) count as equal for their consumers."""
    numbering = Numbering(splits_gemm=splits_gemm)
    for index, (of_b, of_a) in enumerate(pairs.items()):
        numbering.assign((of_a, of_b), ("pair", index))
    numbering.add(a)
    numbering.add(b)
    return numbering


def is_same_model(a: Graph, b: Graph) -> bool:
    """Whether equal nodes of two graphs compute all outputs from corresponding inputs."""
    if len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs):
        return False
    numbering = number_pair(a, b, dict(zip(b.inputs, a.inputs, strict=True)))
    return all(numbering.of(x) == numbering.of(y) for x, y in zip(a.outputs, b.outputs, strict=True))
