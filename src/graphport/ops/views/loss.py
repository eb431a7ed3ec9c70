"""Views of the pages of loss; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class NegativeLogLikelihoodLossView(View):
    """A node of `NegativeLogLikelihoodLoss`."""

    operator = "NegativeLogLikelihoodLoss"

    input: Value
    target: Value
    weight: Value | None = None
    _: KW_ONLY
    ignore_index: int | None = None
    reduction: str = "mean"


@dataclass(slots=True, eq=False, repr=False)
class SoftmaxCrossEntropyLossView(View):
    """A node of `SoftmaxCrossEntropyLoss`."""

    operator = "SoftmaxCrossEntropyLoss"

    scores: Value
    labels: Value
    weights: Value | None = None
    _: KW_ONLY
    ignore_index: int | None = None
    reduction: str = "mean"
