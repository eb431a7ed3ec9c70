"""GridSample and AffineGrid in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_reshape
from graphport.ops.definitions.resize import AffineGrid
from graphport.ops.lowering.operands import dtype_of, needed, sizes, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported

_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


RULES.having(sampled=lambda _b, mode: translate("mode", mode, _MODES)).lower("""
opset9.GridSample(x, grid, *, align_corners=False, mode="bilinear", padding_mode="zeros")
    -> GridSample(x, real(grid), align_corners=align_corners, mode=sampled(mode), padding_mode=padding_mode)
""")
_GRID_MODES = {ours: theirs for theirs, ours in _MODES.items()}
RULES.having(sampled=lambda _b, mode: _GRID_MODES[mode]).export_rules("""
GridSample
    -> rank(x) == 4: opset9.GridSample(x, grid, align_corners=align_corners != 0, mode=sampled(mode),
                                       padding_mode=padding_mode)
""")


@AffineGrid.export_rule("openvino")
def export_affine_grid(b: Builder, theta: Value, size: Value, *, align_corners: int = 0) -> Exported:
    """Export AffineGrid: multiply the coordinates of the identity grid by each matrix."""
    known = size.fact.elements if isinstance(size.fact, TensorFact) else None
    shape: Sequence[Dim] = known if known is not None else needed(size, "the grid size")
    spatial = sizes(shape[2:], "a dim of the grid")
    reserve(*spatial, len(spatial) + 1)
    steps = [np.linspace(-1, 1, n) if align_corners else (np.arange(n) * 2 + 1) / n - 1 for n in spatial]
    mesh = np.meshgrid(*steps, indexing="ij")
    # Coordinates are in the order (x, y, 1): last axis first.
    base = np.stack([*reversed(mesh), np.ones(spatial)], -1).reshape(-1, len(spatial) + 1)
    dtype = dtype_of(theta)
    fixed = b.constant(base.astype(dtype.numpy), dtype)
    fact = TensorFact(dtype, (shape[0], base.shape[0], len(spatial)))
    (grid,) = b.emit("opset1.MatMul", fixed, theta, facts=[fact], transpose_b=True)
    return (emitted_reshape(b, grid, [shape[0] if isinstance(shape[0], int) else -1, *spatial, len(spatial)]),)
