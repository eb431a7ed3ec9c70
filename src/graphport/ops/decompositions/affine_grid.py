"""AffineGrid as a matrix product: the coordinates of the identity grid times each affine matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.lowering.operands import dtype_of, needed, reshaped, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def affine_grid_by_matrix(b: Builder, theta: Value, size: Value, *, align_corners: int = 0) -> tuple[Value, ...]:
    """Multiply the coordinates of the identity grid by each matrix."""
    shape = [int(n) for n in needed(size, "the size of a grid")]
    spatial = shape[2:]
    reserve(*spatial, len(spatial) + 1)
    steps = [np.linspace(-1, 1, n) if align_corners else (np.arange(n) * 2 + 1) / n - 1 for n in spatial]
    base: Any = np.stack([*reversed(np.meshgrid(*steps, indexing="ij")), np.ones(spatial)], -1)
    dtype = dtype_of(theta)
    fixed = b.constant(base.reshape(1, -1, len(spatial) + 1).astype(dtype.numpy), dtype)
    grid = b(MatMul, fixed, transposed(b, theta, (0, 2, 1)))
    return (reshaped(b, grid, (shape[0], *spatial, len(spatial))),)
