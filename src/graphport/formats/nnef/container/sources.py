"""Inputs and constants of a graph: what `external`, `variable` and `constant` make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.nnef.container.build import CONSTANT, QUANTIZED, call_span, source_fact
from graphport.formats.nnef.container.item_types import Fill
from graphport.formats.nnef.container.naming import LABEL
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.diagnostics import Span
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.build import Builder
    from graphport.formats.nnef.container.operation import Operation, Tensor
    from graphport.formats.nnef.container.quantized import Quantization
    from graphport.formats.nnef.container.weights import Weights
    from graphport.ir.notes import Spans


class Sources:
    """Create the inputs and constants of a graph; errors of elements go to the findings of `weights`."""

    def __init__(self, builder: Builder, weights: Weights | None, quantized: Mapping[str, Quantization]) -> None:
        """Without `weights`, variables have no elements; `constant` operations have."""
        self._builder = builder
        self._graph = builder.graph
        self._weights = weights
        self._findings: list[Diagnostic] = [] if weights is None else weights.findings
        self._quantized = quantized

    def input(self, tensor: Tensor, operation: Operation) -> Value:
        """Create the value of an input; it is not added to the graph yet."""
        value = Value(tensor.name, source_fact(operation), origin=call_span(operation.origin))
        self._builder.define(tensor, value)
        return value

    def constant(self, operation: Operation) -> Value:
        """The constant of an operation `variable` or `constant`."""
        (tensor,) = operation.outputs()
        fact, span = source_fact(operation), operation.origin.span
        if operation.name == "variable":
            label = str(operation.attributes["label"])
            value = self.variable(tensor.name, label, tensor.data, fact, span)
            value.origin = call_span(operation.origin)
        else:
            value = Value(tensor.name, fact, origin=call_span(operation.origin))
            if fact.shape is not None and fact.dtype is not None and fact.is_static:
                value.notes[CONSTANT] = True
                value.storage = self._literal_elements(operation, fact.dtype, cast("tuple[int, ...]", fact.shape))
            self._adopt(value, fact)
        self._builder.define(tensor, value)
        return value

    def variable(self, name: str, label: str, data: str, fact: TensorFact, origin: Span | tuple[Spans, int]) -> Value:
        """Create the constant `name` with the elements of the file `label`."""
        value = Value(name, fact, origin=origin)
        if fact.dtype is not None and fact.is_static:
            value.notes[LABEL] = label
            if self._weights is not None and self._weights.may_have(label) and value.origin is not None:
                shape = cast("tuple[int, ...]", fact.shape)
                value.storage = self._weights.storage(label, data, shape, value.origin, self._quantized.get(name))
                if self._weights.holds_codes(label):
                    value.notes[QUANTIZED] = True
        self._adopt(value, fact)
        return value

    def _adopt(self, value: Value, fact: TensorFact) -> None:
        if value.storage is not None:
            value.fact = self._with_elements(value.storage, fact)
        self._graph.adopt_constant(value)

    def _literal_elements(self, operation: Operation, dtype: DType, shape: tuple[int, ...]) -> Storage | None:
        """Return the elements of a `constant` operation: one per element, or one for all."""
        given = cast("tuple[float, ...]", operation.attributes["value"])
        volume = math.prod(shape)
        if len(given) == 1 and volume > 0:
            return Fill(given[0], dtype, shape)
        if len(given) != volume or min(shape, default=1) < 0:
            message = f"{len(given)} elements for shape {list(shape)}"
            span = operation.origin.span
            self._findings.append(Diagnostic("NNEF0756", message, span, f"write 1 or {volume} elements"))
            return None
        with np.errstate(over="ignore"):
            return ArrayStorage(np.array(given, dtype.numpy).reshape(shape), dtype)

    def _with_elements(self, storage: Storage, fact: TensorFact) -> TensorFact:
        try:
            return TensorFact.of(storage)
        except DiagnosticError as error:
            self._findings += error.diagnostics
            return fact
