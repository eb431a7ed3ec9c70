"""Views of the pages of attention; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class AttentionView(View):
    """A node of `Attention`."""

    operator = "Attention"

    q: Value
    k: Value
    v: Value
    attn_mask: Value | None = None
    past_key: Value | None = None
    past_value: Value | None = None
    nonpad_kv_seqlen: Value | None = None
    _: KW_ONLY
    is_causal: int = 0
    kv_num_heads: int | None = None
    left_window_size: int = -1
    q_num_heads: int | None = None
    qk_matmul_output_mode: int = 0
    right_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None


@dataclass(slots=True, eq=False, repr=False)
class RotaryEmbeddingView(View):
    """A node of `RotaryEmbedding`."""

    operator = "RotaryEmbedding"

    x: Value
    cos_cache: Value
    sin_cache: Value
    position_ids: Value | None = None
    _: KW_ONLY
    interleaved: int = 0
    num_heads: int | None = None
    rotary_embedding_dim: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TensorScatterView(View):
    """A node of `TensorScatter`."""

    operator = "TensorScatter"

    past_cache: Value
    update: Value
    write_indices: Value | None = None
    _: KW_ONLY
    axis: int = -2
    mode: str = "linear"
