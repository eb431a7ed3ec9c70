"""Change the batch size of a model."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic, symbols
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops.batch_coupling import first_batch_coupling
from graphport.ops.bind import bind
from graphport.ops.declare import ShapeError
from graphport.passes.open_axes import set_input_shapes

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


def change_batch(graph: Graph, batch: int) -> Graph:
    """Return a copy of a canonical graph for inputs with a batch (first axis) of `batch`.

    Raises:
        DiagnosticError: SHAPE0005: batch elements are not independent, or a constant contains the batch size.
    """
    twin = rewrite.copy(graph)
    sizes: dict[str, Dim] = {}
    shapes: dict[Value, list[Dim]] = {}
    fixed: set[int] = set()
    for value in twin.inputs:
        dims = value.shape
        if not dims:
            continue
        if isinstance(dims[0], Symbolic):
            sizes |= dict.fromkeys(symbols(dims[0]), batch) if str(dims[0]) in symbols(dims[0]) else {}
        elif dims[0] != batch:
            fixed.add(dims[0])
            shapes[value] = [batch, *dims[1:]]
    if sizes:
        bind(twin, sizes)
    if len(fixed) > 1:
        raise _refusal(f"the inputs have batches of {' and '.join(map(str, sorted(fixed)))}")
    try:
        errors = [finding.message for finding in set_input_shapes(twin, shapes) if finding.is_error]
    except (DiagnosticError, ShapeError) as error:
        errors = [str(error)]
    if errors:
        raise _refusal(f"shapes do not match for a batch of {batch}: {errors[0]}")
    if (
        fixed
        and (odd := _find_batch_dependence(graph, twin, fixed.pop(), batch) or first_batch_coupling(graph, twin))
        is not None
    ):
        raise _refusal(f"{odd.op_type} {odd.name or odd.results[0].name} mixes batch elements")
    return twin


def _refusal(reason: str) -> DiagnosticError:
    message = f"the batch elements of the model are not independent: {reason}"
    return DiagnosticError(Diagnostic("SHAPE0005", message, None, "export the model with the required batch size"))


def _find_batch_dependence(graph: Graph, twin: Graph, before: int, batch: int) -> Node | None:
    """Return the first node with an input-dependent result whose element count does not scale with the batch."""
    reached = {value.name for value in graph.inputs}
    for node, other in zip(graph, twin, strict=True):
        if not any(value.name in reached for value in node.operands):
            continue
        for whole, part in zip(node.results, other.results, strict=True):
            if isinstance(whole.fact, TensorFact) and whole.fact.elements is not None:
                continue
            reached.add(whole.name)
            one, two = _size(whole), _size(part)
            if one is None or two is None or one * batch != two * before:
                return node
    return None


def _size(value: Value) -> int | None:
    fact = value.fact
    dims = [dim for dim in fact.shape or () if isinstance(dim, int)] if isinstance(fact, TensorFact) else []
    is_known = isinstance(fact, TensorFact) and fact.shape is not None and len(dims) == len(fact.shape)
    return prod(dims) if is_known else None
