"""Values of the partial evaluator: known numbers and strings are Python's own, tensors and others graph values."""

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
    """A tensor; two variables that share one `Tensor` share its storage.

    `literal` is the Python number that the tensor stands for in type promotion: set for constants of rank 0.
    """

    value: Value
    literal: bool | float | None = None


@dataclass(eq=False, slots=True)
class Number:
    """A number that is not known before the model runs: a graph value of rank 0."""

    value: Value
    kind: Kind


@dataclass(eq=False, slots=True)
class List:
    """A list; `element` is the type of its items as the code declares it, empty if it does not.

    `stacked` are the items, stacked on axis 0, of a list to which a loop of unknown length appends a tensor each time.
    """

    items: list[Any] = field(default_factory=list[Any])
    element: str = ""
    stacked: Tensor | None = None
    born: int = field(default_factory=_BIRTHS.__next__)
    """When it was created: branches undo changes of what is older than they are."""


@dataclass(eq=False, slots=True)
class Dict:
    """A dictionary in insertion order."""

    items: dict[Any, Any] = field(default_factory=dict[Any, Any])
    born: int = field(default_factory=_BIRTHS.__next__)


@dataclass(eq=False, slots=True)
class NamedTuple:
    """A tuple with names."""

    fields: tuple[str, ...]
    items: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Object:
    """An instance of a class of the archive: a module, or an object that the code creates."""

    type: ClassText
    attributes: dict[str, Any]
    path: str = ""
    """Where it stands below the root module."""
    born: int = field(default_factory=_BIRTHS.__next__)


@dataclass(eq=False, slots=True)
class Packed:
    """An object of a C++ class (`torch.classes`): its name and the tensors and numbers of its state."""

    name: str
    state: Any


@dataclass(eq=False, slots=True)
class Quantized:
    """A tensor of integers with scale and zero point; per channel where `axis` is given."""

    codes: Tensor
    scale: Any
    zero_point: Any
    axis: int | None
    dtype: int
    """PyTorch's number of the element type: 12 qint8, 13 quint8, 14 qint32."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the code, or one that a statement defines within another; `scope` has the variables around it."""

    text: FunctionText
    scope: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A dotted name that is no value yet: `torch.nn`, `ops.prim`."""

    name: str


@dataclass(eq=False, slots=True)
class Future:
    """A call that runs apart: its result."""

    result: Any


@dataclass(frozen=True, slots=True)
class Device:
    """A device, which no graph depends on."""

    name: str


class _Uninitialized:
    def __repr__(self) -> str:
        return "uninitialized"


UNINITIALIZED = _Uninitialized()
"""A variable of a branch that is not taken."""


def births() -> int:
    """A number between those of all containers that there are and those to come."""
    return next(_BIRTHS)


def kind_of(value: Any) -> str:
    """The type of a value, as messages name it."""
    match value:
        case None:
            return "None"
        case bool() | int() | float() | str() | complex():
            return type(value).__name__
        case Number():
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
