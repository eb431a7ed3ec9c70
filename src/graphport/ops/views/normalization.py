"""Views of the pages of normalization; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class BatchNormalizationView(View[T]):
    """A node of `BatchNormalization`."""

    operator = "BatchNormalization"

    x: T
    scale: T
    b: T
    input_mean: T
    input_var: T
    _: KW_ONLY
    epsilon: float = 1e-05
    momentum: float = 0.9
    training_mode: int = 0


@dataclass(slots=True, eq=False, repr=False)
class GroupNormalizationView(View[T]):
    """A node of `GroupNormalization`."""

    operator = "GroupNormalization"

    x: T
    scale: T
    bias: T
    _: KW_ONLY
    epsilon: float = 1e-05
    num_groups: int
    stash_type: int = 1


@dataclass(slots=True, eq=False, repr=False)
class LRNView(View[T]):
    """A node of `LRN`."""

    operator = "LRN"

    x: T
    _: KW_ONLY
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0
    size: int


@dataclass(slots=True, eq=False, repr=False)
class LayerNormalizationView(View[T]):
    """A node of `LayerNormalization`."""

    operator = "LayerNormalization"

    x: T
    scale: T
    b: T | None = None
    _: KW_ONLY
    axis: int = -1
    epsilon: float = 1e-05
    stash_type: int = 1


@dataclass(slots=True, eq=False, repr=False)
class RMSNormalizationView(View[T]):
    """A node of `RMSNormalization`."""

    operator = "RMSNormalization"

    x: T
    scale: T
    _: KW_ONLY
    axis: int = -1
    epsilon: float = 1e-05
    stash_type: int = 1
