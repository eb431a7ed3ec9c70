"""Normalizations: entries shifted and scaled by statistics of their neighbours."""

from __future__ import annotations

from graphport.ops.definitions.normalization.batch import BatchNormalization
from graphport.ops.definitions.normalization.groups import (
    GroupNormalization,
    InstanceNormalization,
    MeanVarianceNormalization,
)
from graphport.ops.definitions.normalization.layer import LayerNormalization, RMSNormalization
from graphport.ops.definitions.normalization.norms import LRN, LpNormalization

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
