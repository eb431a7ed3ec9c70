"""Values of the partial evaluator; static scalars and strings are Python objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.pytorch.torchscript.syntax import ClassText, FunctionText
    from graphport.ir.graph import Value

_BIRTHS = count()

Kind = Literal["int", "float", "bool"]


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor; variables with the same `Tensor` object share its storage.

    `literal` is the Python number that replaces the tensor in type promotion; it is set for constants of rank 0.
    """

    value: Value
    literal: bool | float | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Nested(Tensor):
    """A padded nested tensor; `padding` [n, s] is true outside the rows, `is_ragged` if it is not at their ends."""

    padding: Tensor
    is_ragged: Tensor


@dataclass(eq=False, slots=True)
class RuntimeScalar:
    """A run-time scalar: a graph value of rank 0."""

    value: Value
    kind: Kind


@dataclass(eq=False, slots=True)
class List:
    """A list; `element` is the declared type of its items, empty if the code does not declare one.

    `stacked` are the items, stacked on axis 0, of a list that a loop with a run-time trip count appends to.
    """

    items: list[Any] = field(default_factory=list[Any])
    element: str = ""
    stacked: Tensor | None = None
    serial: int = field(default_factory=_BIRTHS.__next__)
    """Serial number: a branch undoes mutations of containers that are older than the branch."""


@dataclass(eq=False, slots=True)
class Dict:
    """A dictionary in insertion order."""

    items: dict[Any, Any] = field(default_factory=dict[Any, Any])
    serial: int = field(default_factory=_BIRTHS.__next__)


@dataclass(eq=False, slots=True)
class NamedTuple:
    """A tuple with field names."""

    fields: tuple[str, ...]
    items: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Object:
    """An instance of a class of the archive: a module, or an object that the code creates."""

    type: ClassText
    attributes: dict[str, Any]
    path: str = ""
    """The path below the root module."""
    serial: int = field(default_factory=_BIRTHS.__next__)


@dataclass(eq=False, slots=True)
class Packed:
    """An object of a C++ class (`torch.classes`): class name, and tensors and scalars of its state."""

    name: str
    state: Any


@dataclass(eq=False, slots=True)
class Quantized:
    """A quantized tensor: codes, scale and zero point; per channel if `axis` is set."""

    codes: Tensor
    scale: Any
    zero_point: Any
    axis: int | None
    dtype: int
    """PyTorch's ScalarType code: 12 qint8, 13 quint8, 14 qint32."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or a nested function; `scope` contains the enclosing variables."""

    text: FunctionText
    scope: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A prefix of a dotted name: `torch.nn`, `ops.prim`."""

    name: str


@dataclass(eq=False, slots=True)
class Future:
    """The result of an asynchronous call (`torch.jit.fork`)."""

    result: Any


@dataclass(frozen=True, slots=True)
class Device:
    """A device; graphs do not depend on it."""

    name: str


class _Uninitialized:
    def __repr__(self) -> str:
        return "uninitialized"


UNINITIALIZED = _Uninitialized()
"""The value of a variable in a branch that is not executed."""


def next_serial() -> int:
    """Return the next serial number: greater than those of all containers so far."""
    return next(_BIRTHS)


def type_name(value: Any) -> str:
    """Return the type of a value for messages."""
    match value:
        case None:
            return "None"
        case bool() | int() | float() | str() | complex():
            return type(value).__name__
        case RuntimeScalar():
            return value.kind
        case Tensor() | Quantized():
            return "Tensor"
        case List():
            return "List"
        case Dict():
            return "Dict"
        case tuple() | NamedTuple():
            return "Tuple"
        case Object():
            return value.type.name
        case Packed():
            return value.name
        case Device():
            return "Device"
        case _:
            return type(value).__name__
