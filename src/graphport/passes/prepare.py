"""The passes that prepare a graph for quantization."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from graphport.passes.driver import Pass, PassList
from graphport.passes.fold_constants import fold_constants
from graphport.passes.form_gemm import form_gemm
from graphport.passes.fuse_batchnorm import fuse_batchnorm
from graphport.passes.fuse_bias import fuse_bias
from graphport.passes.fuse_pads import fuse_pads
from graphport.passes.fuse_scale import fuse_scale
from graphport.passes.inline_branches import inline_branches
from graphport.passes.lift_constants import lift_constants
from graphport.passes.name_nodes import name_nodes
from graphport.passes.recompose import recompose_gelu, recompose_layernorm, recompose_rmsnorm, recompose_swish
from graphport.passes.remove_dead import remove_dead
from graphport.passes.remove_noops import remove_noops
from graphport.passes.replace_batchnorm import batchnorm_to_conv, batchnorm_to_scale
from graphport.passes.resolve_casts import resolve_casts
from graphport.passes.resolve_sequences import resolve_sequences
from graphport.passes.resolve_shapes import resolve_shapes
from graphport.passes.split_parameters import keep_shared_parameters, split_every_parameter, split_parameters

PREPARE = PassList(
    (
        Pass("lift-constants", lift_constants, "exact"),
        Pass("resolve-casts", resolve_casts, "exact"),
        Pass("resolve-sequences", resolve_sequences, "exact"),
        Pass("inline-branches", inline_branches, "exact"),
        Pass("fold-constants", fold_constants, "rounding"),
        Pass("resolve-shapes", resolve_shapes, "exact"),
        Pass("remove-noops", remove_noops, "exact"),
        Pass("recompose-layernorm", recompose_layernorm, "accumulation"),
        Pass("recompose-rmsnorm", recompose_rmsnorm, "accumulation"),
        Pass("recompose-gelu", recompose_gelu, "rounding"),
        Pass("recompose-swish", recompose_swish, "rounding"),
        # Layers with weights absorb the following operators.
        Pass("split-parameters", split_parameters, "exact"),
        Pass("form-gemm", form_gemm, "accumulation"),
        Pass("fuse-pads", fuse_pads, "exact"),
        Pass("fuse-bias", fuse_bias, "accumulation"),
        Pass("fuse-scale", fuse_scale, "accumulation"),
        Pass("fuse-batchnorm", fuse_batchnorm, "accumulation"),
        Pass("batchnorm-to-conv", batchnorm_to_conv, "accumulation"),
        Pass("batchnorm-to-scale", batchnorm_to_scale, "rounding"),
        Pass("remove-dead", remove_dead, "exact"),
        Pass("name-nodes", name_nodes, "exact"),
    ),
    least_room=1 << 14,
    keeps_old_forms=False,
    name="prepare",
)
"""The passes of `graphport prepare`."""

SHARED = MappingProxyType({"auto": split_parameters, "split": split_every_parameter, "keep": keep_shared_parameters})
"""Treatments of parameters with several consumers."""


def preparing(shared: str = "auto") -> PassList:
    """Return `PREPARE` with a treatment of shared parameters, one of `SHARED`.

    Raises:
        ValueError: `shared` is unknown.
    """
    if shared not in SHARED:
        message = f"unknown value {shared!r} of `shared`: expected {', '.join(SHARED)}"
        raise ValueError(message)
    passes = (replace(each, work=SHARED[shared]) if each.work is split_parameters else each for each in PREPARE)
    return replace(PREPARE, passes=tuple(passes))
