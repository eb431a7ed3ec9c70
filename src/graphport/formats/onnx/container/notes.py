"""What ONNX needs to write a model back as it was, and nobody else reads: kept in `notes` under `KEY`."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute, Graph, Node, Value

KEY = "onnx"
MODEL = "onnx.model"
STATE = "graphport."
"""What stands before the notes of a state, where they are metadata of a declared input."""

Properties = tuple[tuple[str, str], ...]
"""Entries of `metadata_props` and its like, in order."""

_EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the model's own; `body` has its own opsets, its inputs and outputs are those of the function.

    `defaults` are the attributes that a call may leave out without them being absent.
    """

    domain: str
    name: str
    overload: str
    attributes: tuple[str, ...]
    defaults: Mapping[str, Attribute]
    body: Graph
    notes: Mapping[str, AttributeNotes] = field(default_factory=dict[str, "AttributeNotes"])
    """Of the defaults."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What a node must say to call it."""
        return self.domain, self.name, self.overload


@dataclass(frozen=True, slots=True)
class ModelNotes:
    """Of the outermost graph."""

    ir_version: int
    opset: int | None = None
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    metadata: Properties = ()
    functions: tuple[Function, ...] = ()
    training: tuple[bytes, ...] = ()
    """`TrainingInfoProto`s."""
    devices: tuple[bytes, ...] = ()
    """`DeviceConfigurationProto`s."""
    has_external_data: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """A `ValueInfoProto` that says more than the fact it became; it stands as long as the fact does."""

    fact: Fact
    proto: bytes


@dataclass(frozen=True, slots=True)
class GraphNotes:
    """Of a graph or body."""

    doc_string: str = ""
    metadata: Properties = ()
    inputs: tuple[str, ...] = ()
    """All names of `input` in order, if some of them are constants: inputs with a default."""
    value_info: tuple[str, ...] = ()
    """Results and constants that are declared, in order."""
    declarations: Mapping[tuple[str, str], Declaration] = field(default_factory=dict[tuple[str, str], Declaration])
    """By field of `GraphProto` and name."""
    quantization: tuple[bytes, ...] = ()
    """`TensorAnnotation`s."""


@dataclass(frozen=True, slots=True)
class AttributeNotes:
    """Of an attribute: its type, by number, where its value does not tell, and texts."""

    kind: int = 0
    doc_string: str = ""
    reference: str = ""
    """Attribute of the function around it whose value it takes; then the node has no such attribute."""
    tensors: tuple[TensorNotes | None, ...] = ()
    types: tuple[Declaration, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeNotes:
    """Of a node."""

    doc_string: str = ""
    metadata: Properties = ()
    overload: str = ""
    devices: tuple[bytes, ...] = ()
    """`NodeDeviceConfigurationProto`s."""
    attributes: Mapping[str, AttributeNotes] = field(default_factory=dict[str, AttributeNotes])


@dataclass(frozen=True, slots=True)
class TensorNotes:
    """Of a constant."""

    doc_string: str = ""
    metadata: Properties = ()
    name: str = ""
    """Of a tensor in an attribute."""


Found = TypeVar("Found")


def noted(owner: Graph | Node | Value, kind: type[Found], key: str = KEY) -> Found | None:
    """The notes that the reader left, if there are any."""
    notes = owner.notes if owner.has_notes else _EMPTY
    found = notes.get(key)
    return found if isinstance(found, kind) else None
