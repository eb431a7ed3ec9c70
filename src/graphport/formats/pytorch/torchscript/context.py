"""Protocols of the evaluator and its parts, which avoid import cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.formats.pytorch.torchscript.emit import Emitter
    from graphport.formats.pytorch.torchscript.liveness import Liveness
    from graphport.formats.pytorch.torchscript.mutations import Mutations
    from graphport.formats.pytorch.torchscript.values import Kind, Tensor


class Calls(Protocol):
    """Evaluation of operator calls; see `operators.Operators`."""

    @property
    def context(self) -> Context:
        """The evaluator."""
        ...

    @property
    def emitter(self) -> Emitter:
        """Makes nodes."""
        ...

    @property
    def version(self) -> int:
        """The version record of the file."""
        ...

    def torch(self, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        """Evaluate a call of `torch.name`."""
        ...

    def on_tensors(self, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        """Emit a tensor operator and return its results."""
        ...

    def to_scalar(self, value: Any, kind: Kind) -> Any:
        """Evaluate `int(value)`, `float(value)` or `bool(value)`."""
        ...

    def tensor_item(self, tensor: Tensor) -> Any:
        """Return the only element of a tensor as a scalar."""
        ...

    def tensor_of(self, number: Any, dtype: DType | None = None) -> Tensor:
        """Convert a scalar to a tensor of rank 0."""
        ...


class Context(Protocol):
    """The evaluator; see `evaluator.Evaluator`."""

    @property
    def emitter(self) -> Emitter:
        """Makes nodes."""
        ...

    @property
    def operators(self) -> Calls:
        """Evaluation of operator calls."""
        ...

    @property
    def mutations(self) -> Mutations:
        """The record of mutated containers."""
        ...

    @property
    def liveness(self) -> Liveness:
        """Temporaries of the function that is evaluated."""
        ...

    def assume(self, condition: str) -> None:
        """Record a condition on the inputs that the graph assumes."""
        ...

    def block(self, statements: Sequence[ast.stmt], variables: dict[str, Any]) -> tuple[Any] | None:
        """Execute statements; return the value of a `return` statement in a tuple, else `None`."""
        ...

    def expression(self, node: ast.expr, variables: Mapping[str, Any]) -> Any:
        """Evaluate an expression."""
        ...

    def call_method(self, owner: Any, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Evaluate a method call."""
        ...
