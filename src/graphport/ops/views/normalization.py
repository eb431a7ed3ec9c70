"""Views of the pages of normalization; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class BatchNormalizationView(View):
    """A node of `BatchNormalization`."""

    operator = "BatchNormalization"

    x: Value
    scale: Value
    b: Value
    input_mean: Value
    input_var: Value
    _: KW_ONLY
    epsilon: float = 1e-05
    momentum: float = 0.9
    training_mode: int = 0


@dataclass(slots=True, eq=False, repr=False)
class GroupNormalizationView(View):
    """A node of `GroupNormalization`."""

    operator = "GroupNormalization"

    x: Value
    scale: Value
    bias: Value
    _: KW_ONLY
    epsilon: float = 1e-05
    num_groups: int
    stash_type: int = 1


@dataclass(slots=True, eq=False, repr=False)
class LRNView(View):
    """A node of `LRN`."""

    operator = "LRN"

    x: Value
    _: KW_ONLY
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0
    size: int


@dataclass(slots=True, eq=False, repr=False)
class LayerNormalizationView(View):
    """A node of `LayerNormalization`."""

    operator = "LayerNormalization"

    x: Value
    scale: Value
    b: Value | None = None
    _: KW_ONLY
    axis: int = -1
    epsilon: float = 1e-05
    stash_type: int = 1


@dataclass(slots=True, eq=False, repr=False)
class RMSNormalizationView(View):
    """A node of `RMSNormalization`."""

    operator = "RMSNormalization"

    x: Value
    scale: Value
    _: KW_ONLY
    axis: int = -1
    epsilon: float = 1e-05
    stash_type: int = 1
