"""Shape propagation for compile-time evaluation, by the operator definitions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import UNKNOWN, TensorFact, named
from graphport.formats.nnef.container.build import Builder, is_source, source_fact
from graphport.ir.graph import Graph, Value
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from graphport.core.facts import Fact
    from graphport.formats.nnef.container.operation import Operation


class Propagation:
    """Infer the facts of an operation's results from those of its operands."""

    def __init__(self) -> None:
        self._inference = Inference()
        self._scratch = Builder(Graph())

    def __call__(self, operation: Operation) -> list[TensorFact | None]:
        """Return the facts of the results of `operation`, in order.

        Raises:
            DiagnosticError: the operands are invalid.
        """
        if is_source(operation):
            _countable(operation, source_fact(operation))
            return [source_fact(operation)]
        for tensor in operation.inputs():
            if tensor.literal is None:
                self._scratch.define(tensor, Value(tensor.name, tensor.fact or UNKNOWN))
        node = self._scratch.add(operation)
        known = len(self._inference.findings)
        facts = self._inference.node(node)
        for fact in facts:
            _countable(operation, fact)
        if len(self._inference.findings) > known:
            raise DiagnosticError(*self._inference.findings[known:])
        found: list[TensorFact | None] = []
        for value, tensor, fact in zip(node.results, operation.outputs(), facts, strict=True):
            # Dims that are known only at run time are named after the tensor, whose name may still change.
            value.fact = named(fact, f"{tensor.name}_{tensor.order}")
            found.append(_tensor_fact(value.fact))
        return found


def _tensor_fact(fact: Fact) -> TensorFact | None:
    return fact if isinstance(fact, TensorFact) and fact != UNKNOWN else None


def _countable(operation: Operation, fact: Fact | None) -> None:
    """Refuse a tensor of more elements than 64 bits count.

    Raises:
        DiagnosticError: NNEF0632.
    """
    shape = fact.shape if isinstance(fact, TensorFact) else None
    count = prod(dim for dim in shape or () if isinstance(dim, int))
    if count >= 1 << 63:
        message = f"the result of '{operation.name}' is too large: {' x '.join(map(str, shape or ()))} elements"
        remedy = "check the extents: the element count exceeds int64"
        raise DiagnosticError(Diagnostic("NNEF0632", message, operation.origin.span, remedy))
