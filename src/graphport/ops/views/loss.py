"""Views of the pages of loss; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class NegativeLogLikelihoodLossView(View[T]):
    """A node of `NegativeLogLikelihoodLoss`."""

    operator = "NegativeLogLikelihoodLoss"

    input: T
    target: T
    weight: T | None = None
    _: KW_ONLY
    ignore_index: int | None = None
    reduction: str = "mean"


@dataclass(slots=True, eq=False, repr=False)
class SoftmaxCrossEntropyLossView(View[T]):
    """A node of `SoftmaxCrossEntropyLoss`."""

    operator = "SoftmaxCrossEntropyLoss"

    scores: T
    labels: T
    weights: T | None = None
    _: KW_ONLY
    ignore_index: int | None = None
    reduction: str = "mean"
