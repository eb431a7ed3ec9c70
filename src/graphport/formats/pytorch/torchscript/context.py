"""What the parts of the evaluator know of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.formats.pytorch.torchscript.emit import Emitter
    from graphport.formats.pytorch.torchscript.mutations import Mutations
    from graphport.formats.pytorch.torchscript.values import Kind, Tensor


class Calls(Protocol):
    """Calls of operators; see `operators.Operators`."""

    @property
    def context(self) -> Context:
        """The evaluator that makes the calls."""
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
        """The value of a call of `torch.name`."""
        ...

    def to_number(self, value: Any, kind: Kind) -> Any:
        """`int(value)`, `float(value)` or `bool(value)`."""
        ...

    def item(self, tensor: Tensor) -> Any:
        """The only element of a tensor as a number."""
        ...

    def tensor_of(self, number: Any, dtype: DType | None = None) -> Tensor:
        """A number as a tensor of rank 0."""
        ...


class Context(Protocol):
    """The evaluator; see `evaluator.Evaluator`."""

    @property
    def emitter(self) -> Emitter:
        """Makes nodes."""
        ...

    @property
    def operators(self) -> Calls:
        """Calls of operators."""
        ...

    @property
    def mutations(self) -> Mutations:
        """What containers were before branches changed them."""
        ...

    def assume(self, condition: str) -> None:
        """Record that the graph is read for inputs with this condition."""
        ...

    def block(self, statements: Sequence[ast.stmt], variables: dict[str, Any]) -> tuple[Any] | None:
        """Run statements; the value of a `return` among them, in a tuple."""
        ...

    def expression(self, node: ast.expr, variables: Mapping[str, Any]) -> Any:
        """The value of an expression."""
        ...

    def call_method(self, owner: Any, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The value that a method returns."""
        ...
