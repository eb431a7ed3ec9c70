"""Content of an ONNX file that only its writer needs: stored as notes under `KEY`."""

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
"""Prefix of the notes of a state in the metadata of a declared input."""

Properties = tuple[tuple[str, str], ...]
"""Entries of `metadata_props` and its like, in order."""

_EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Function:
    """A model function; `body` has its own opsets and the function's inputs and outputs.

    `defaults` are default values of attributes.
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
        """Domain, name and overload of nodes that call it."""
        return self.domain, self.name, self.overload


@dataclass(frozen=True, slots=True)
class ModelNotes:
    """Fields of a `ModelProto` that the graph does not represent."""

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
    """A `ValueInfoProto` with more content than its fact; valid while the value has that fact."""

    fact: Fact
    proto: bytes


@dataclass(frozen=True, slots=True)
class GraphNotes:
    """Fields of a `GraphProto` that the graph does not represent."""

    doc_string: str = ""
    metadata: Properties = ()
    inputs: tuple[str, ...] = ()
    """All names of `input` in order, if some of them are constants (inputs with default)."""
    value_info: tuple[str, ...] = ()
    """Results and constants that are declared, in order."""
    declarations: Mapping[tuple[str, str], Declaration] = field(default_factory=dict[tuple[str, str], Declaration])
    """By field of `GraphProto` and name."""
    quantization: tuple[bytes, ...] = ()
    """`TensorAnnotation`s."""


@dataclass(frozen=True, slots=True)
class AttributeNotes:
    """Notes of an attribute: its type code if the value is ambiguous, and strings."""

    kind: int = 0
    doc_string: str = ""
    reference: str = ""
    """Attribute of the enclosing function that provides the value; the node then has no such attribute."""
    tensors: tuple[TensorNotes | None, ...] = ()
    types: tuple[Declaration, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeNotes:
    """Fields of a `NodeProto` that the node does not represent."""

    doc_string: str = ""
    metadata: Properties = ()
    overload: str = ""
    devices: tuple[bytes, ...] = ()
    """`NodeDeviceConfigurationProto`s."""
    attributes: Mapping[str, AttributeNotes] = field(default_factory=dict[str, AttributeNotes])


@dataclass(frozen=True, slots=True)
class TensorNotes:
    """Fields of a `TensorProto` that the constant does not represent."""

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
