"""Tensors and resources while a graph is built: values, variables, tables, tensor lists, complex tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.formats.tensorflow.container.records import Body, Ref
    from graphport.ir.graph import Value


@dataclass(eq=False, slots=True)
class Variable:
    """A variable: its stored elements, and the value that it has at this point of the program."""

    name: str
    storage: Storage | None
    first: Value | None = None
    """The value at the start of a run."""
    value: Value | None = None


@dataclass(eq=False, slots=True)
class Table:
    """A lookup table with constant keys and values."""

    name: str
    keys: Storage | None = None
    values: Storage | None = None


@dataclass(eq=False, slots=True)
class TensorList:
    """A list of tensors of one shape.

    `stacked` has the elements along a new first axis. It is absent while no element is written; then `size` and
    `element_shape` are the arguments of the reservation, both absent for an empty list.
    """

    dtype: DType | None
    stacked: Value | None = None
    size: Value | None = None
    element_shape: Value | None = None
    source: TensorList | None = None
    """In a loop: the list at the start of the iteration, of which this one differs by one written element."""
    index: Value | None = None
    """The index of that element; `None` if it is appended."""
    element: Value | None = None
    is_loop_input: bool = False
    grows: bool = False
    """Whether writes behind the end of the list extend it."""


@dataclass(eq=False, slots=True)
class ComplexPair:
    """A complex tensor: its real and its imaginary part, of one shape."""

    real: Value
    imag: Value


@dataclass(eq=False, slots=True)
class Dead:
    """The absent result of an operator in a branch that is not executed."""


DEAD = Dead()
Item: TypeAlias = "Value | Variable | Table | TensorList | ComplexPair | Dead"


@dataclass(eq=False, slots=True)
class Frame:
    """A graph or function that is being evaluated, or a part of one with other values for some tensors."""

    body: Body
    prefix: str = ""
    outer: Frame | None = None
    items: dict[Ref, Any] = field(default_factory=dict["Ref", Any])
    done: set[str] = field(default_factory=set[str])
    taken: dict[Ref, int] = field(default_factory=dict["Ref", int])
    """The result of Switch, 0 or 1, that is alive for a predicate."""

    def find(self, ref: Ref) -> Any:
        """The item of a tensor; `None` if it is not evaluated."""
        frame: Frame | None = self
        while frame is not None:
            found = frame.items.get(ref)
            if found is not None:
                return found
            frame = frame.outer
        return None

    def is_done(self, name: str) -> bool:
        """Whether a node is evaluated."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.done:
                return True
            frame = frame.outer
        return False

    def side(self, predicate: Ref) -> int | None:
        """The result of Switch that is alive for a predicate; `None` if both may be."""
        frame: Frame | None = self
        while frame is not None:
            if predicate in frame.taken:
                return frame.taken[predicate]
            frame = frame.outer
        return None

    def fork(self) -> Frame:
        """A frame in which other values can be bound."""
        return Frame(self.body, self.prefix, self)
