"""The passes that simplify a graph."""

from __future__ import annotations

from graphport.passes.driver import Pass, PassList, select
from graphport.passes.drop_expands import drop_expands
from graphport.passes.drop_negations import drop_negations
from graphport.passes.drop_zero_states import drop_zero_states
from graphport.passes.fold_constants import fold_constants
from graphport.passes.form_gemm import form_gemm
from graphport.passes.fuse_batchnorm import fuse_batchnorm
from graphport.passes.fuse_bias import fuse_bias
from graphport.passes.fuse_pads import fuse_pads
from graphport.passes.fuse_scale import fuse_scale
from graphport.passes.inline_branches import inline_branches
from graphport.passes.lift_constants import lift_constants
from graphport.passes.merge_arithmetic import merge_arithmetic, remove_neutral
from graphport.passes.merge_clips import merge_clips
from graphport.passes.merge_duplicates import merge_duplicates
from graphport.passes.merge_moves import merge_concats, merge_reshapes, merge_slices, merge_transposes
from graphport.passes.merge_slice_squeeze import merge_slice_squeeze
from graphport.passes.push_transposes import push_transposes
from graphport.passes.recompose import recompose_gelu, recompose_layernorm, recompose_rmsnorm, recompose_swish
from graphport.passes.recompose_activations import (
    recompose_hardsigmoid,
    recompose_mish,
    recompose_prelu,
    recompose_softplus,
)
from graphport.passes.recompose_attention import recompose_attention
from graphport.passes.remove_dead import remove_dead
from graphport.passes.remove_noops import remove_noops
from graphport.passes.resolve_branches import resolve_branches
from graphport.passes.resolve_casts import resolve_casts
from graphport.passes.resolve_sequences import resolve_sequences
from graphport.passes.resolve_shapes import resolve_shapes
from graphport.passes.unflatten_products import unflatten_products
from graphport.passes.unroll_loops import unroll_loops

SIMPLIFY = PassList(
    (
        Pass("lift-constants", lift_constants, "exact"),
        Pass("resolve-casts", resolve_casts, "exact"),
        Pass("resolve-sequences", resolve_sequences, "exact"),
        Pass("inline-branches", inline_branches, "exact"),
        Pass("unroll-loops", unroll_loops, "exact"),
        Pass("fold-constants", fold_constants, "rounding"),
        Pass("resolve-shapes", resolve_shapes, "exact"),
        Pass("remove-dead", remove_dead, "exact"),
        Pass("remove-noops", remove_noops, "exact"),
        Pass("remove-neutral", remove_neutral, "exact"),
        Pass("merge-duplicates", merge_duplicates, "exact"),
        Pass("resolve-branches", resolve_branches, "exact"),
        Pass("pick-entries", merge_slice_squeeze, "exact"),
        Pass("merge-reshapes", merge_reshapes, "exact"),
        Pass("merge-transposes", merge_transposes, "exact"),
        Pass("push-transposes", push_transposes, "exact"),
        Pass("merge-slices", merge_slices, "exact"),
        Pass("merge-concats", merge_concats, "exact"),
        Pass("merge-clips", merge_clips, "exact"),
        Pass("drop-expands", drop_expands, "accumulation"),
        Pass("drop-zero-states", drop_zero_states, "exact"),
        Pass("unflatten-products", unflatten_products, "accumulation"),
        Pass("recompose-layernorm", recompose_layernorm, "accumulation"),
        Pass("recompose-rmsnorm", recompose_rmsnorm, "accumulation"),
        Pass("recompose-gelu", recompose_gelu, "rounding"),
        Pass("recompose-swish", recompose_swish, "rounding"),
        Pass("recompose-hardsigmoid", recompose_hardsigmoid, "rounding"),
        Pass("recompose-prelu", recompose_prelu, "exact"),
        Pass("recompose-softplus", recompose_softplus, "rounding"),
        Pass("recompose-mish", recompose_mish, "rounding"),
        Pass("recompose-attention", recompose_attention, "accumulation", makes="Attention"),
        Pass("drop-negations", drop_negations, "exact"),
        Pass("merge-arithmetic", merge_arithmetic, "rounding"),
        Pass("form-gemm", form_gemm, "accumulation"),
        Pass("fuse-pads", fuse_pads, "exact"),
        Pass("fuse-bias", fuse_bias, "accumulation"),
        Pass("fuse-scale", fuse_scale, "accumulation"),
        Pass("fuse-batchnorm", fuse_batchnorm, "accumulation"),
    ),
    name="simplify",
)
"""The passes of `graphport simplify`."""

RESOLVE = select(
    SIMPLIFY, only=("lift-constants", "resolve-casts", "resolve-sequences", "resolve-shapes", "remove-dead")
)
"""Passes that resolve shape arithmetic."""

COMPUTE = select(
    SIMPLIFY,
    only=("lift-constants", "resolve-casts", "resolve-sequences", "fold-constants", "resolve-shapes", "remove-dead"),
)
"""`RESOLVE` and constant folding."""
