"""The interface of a graph: inputs, constants and outputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from graphport.ir.linked_list import Chain, N

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class Port(Protocol):
    """A value in its role as input, constant or output."""

    name: str
    graph: Any
    producer: Any

    @property
    def uses(self) -> Collection[Any]:
        """The uses of the value."""
        ...


V = TypeVar("V", bound=Port)


class Ports(Chain[N], Generic[N, V]):
    """Inputs, constants and outputs around nodes in order."""

    __slots__ = ("_inputs", "_outputs", "constants")

    _inputs: dict[V, None]
    _outputs: list[V]
    constants: dict[V, None]

    @abstractmethod
    def _add_output_use(self, index: int) -> None:
        """Note with the value of output `index` that it is returned."""

    @abstractmethod
    def _remove_output_use(self, index: int) -> None:
        """Note with the value of output `index` that it is not returned there any more."""

    @abstractmethod
    def reserve(self, name: str) -> None:
        """Reserve a name, so that no new value gets it."""

    @property
    def inputs(self) -> list[V]:
        """The inputs in order."""
        return list(self._inputs)

    @property
    def input_set(self) -> Mapping[V, None]:
        """The inputs, to ask for membership."""
        return self._inputs

    @property
    def outputs(self) -> list[V]:
        """The outputs in order; a value may occur twice."""
        return list(self._outputs)

    def adopt_input(self, value: V) -> V:
        """Append `value`, which belongs to no graph and has no producer, to the inputs."""
        _check_free(value)
        self._inputs[self._adopt(value)] = None
        return value

    def replace_input(self, value: V, other: V) -> None:
        """Replace the input `value`, which has no uses, by `other`, which belongs to no graph and may have uses.

        If both have one name, `other` keeps it.
        """
        if value.uses:
            message = f"%{value.name} is still read"
            raise ValueError(message)
        _check_free(other)
        operands = [other if each is value else each for each in self._inputs]
        value.graph = None
        self._adopt(other)
        self._inputs = dict.fromkeys(operands)

    def adopt_constant(self, value: V) -> V:
        """Make `value`, which no graph has and no node computes, a constant of this one."""
        _check_free(value)
        self.constants[self._adopt(value)] = None
        return value

    def remove_input(self, value: V) -> None:
        """Remove an input without uses."""
        self._drop(value, self._inputs)

    def remove_constant(self, value: V) -> None:
        """Remove a constant without uses."""
        self._drop(value, self.constants)

    def add_output(self, value: V) -> None:
        """Append `value` to the outputs."""
        self._outputs.append(value)
        self._add_output_use(len(self._outputs) - 1)

    def set_output(self, index: int, value: V) -> None:
        """Return `value` as output `index`."""
        if index < 0:
            message = f"no output {index}"
            raise IndexError(message)
        self._remove_output_use(index)
        self._outputs[index] = value
        self._add_output_use(index)

    def set_outputs(self, values: Iterable[V]) -> None:
        """Return exactly `values`."""
        outputs = list(values)
        for index in range(len(self._outputs)):
            self._remove_output_use(index)
        self._outputs = outputs
        for index in range(len(outputs)):
            self._add_output_use(index)

    def _adopt(self, value: V) -> V:
        value.graph = self
        self.reserve(value.name)
        return value

    def _drop(self, value: V, owner: dict[V, None]) -> None:
        if value not in owner:
            message = f"%{value.name} is not one of graph {self.name}"
            raise ValueError(message)
        if value.uses:
            message = f"%{value.name} is still read"
            raise ValueError(message)
        del owner[value]
        value.graph = None


def _check_free(value: Port) -> None:
    if value.graph is not None or value.producer is not None:
        message = f"%{value.name} is in a graph already"
        raise ValueError(message)
