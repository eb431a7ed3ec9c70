"""Summarize the contents of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.api.load import as_model
from graphport.api.macs import with_activations, with_example
from graphport.conversion.coverage import coverage
from graphport.conversion.inspection import Inspection
from graphport.conversion.inspection import inspect as inspect_graph
from graphport.conversion.legalize import legalize
from graphport.conversion.sampling import sample_graph
from graphport.core import budget

if TYPE_CHECKING:
    from graphport.api.model import ModelSource


@budget.fresh()
def inspect(model: ModelSource) -> Inspection:
    """Summarize `model`: operators, weights, operations, memory of activations, and the formats that support it."""
    model = as_model(model)
    graph, _ = legalize(model.graph)
    found = with_example(inspect_graph(graph, model.format, model.versions), graph)
    found = with_activations(found, graph)
    found = replace(found, kernels=model.kernels)
    lacking = {name for name, operators in found.unsupported.items() if operators}
    if not lacking:
        return found
    from graphport.api.save import fold_constants

    # As in `convert`: values computed from constants need no operators in the target.
    tried, stands_for = sample_graph(graph)
    folded = fold_constants(tried)
    if folded is None:
        return found
    return replace(found, unsupported=found.unsupported | coverage(folded, stands_for, only=lacking))
