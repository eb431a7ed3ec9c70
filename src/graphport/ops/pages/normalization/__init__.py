"""Normalizations: entries shifted and scaled by statistics of their neighbours."""

from __future__ import annotations

from graphport.ops.pages.normalization.batch import BatchNormalization
from graphport.ops.pages.normalization.groups import (
    GroupNormalization,
    InstanceNormalization,
    MeanVarianceNormalization,
)
from graphport.ops.pages.normalization.layer import LayerNormalization, RMSNormalization
from graphport.ops.pages.normalization.norms import LRN, LpNormalization

__all__ = [
    "LRN",
    "BatchNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
]
