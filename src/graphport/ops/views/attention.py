"""Views of the pages of attention; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class AttentionView(View[T]):
    """A node of `Attention`."""

    operator = "Attention"

    q: T
    k: T
    v: T
    attn_mask: T | None = None
    past_key: T | None = None
    past_value: T | None = None
    nonpad_kv_seqlen: T | None = None
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
class RotaryEmbeddingView(View[T]):
    """A node of `RotaryEmbedding`."""

    operator = "RotaryEmbedding"

    x: T
    cos_cache: T
    sin_cache: T
    position_ids: T | None = None
    _: KW_ONLY
    interleaved: int = 0
    num_heads: int | None = None
    rotary_embedding_dim: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TensorScatterView(View[T]):
    """A node of `TensorScatter`."""

    operator = "TensorScatter"

    past_cache: T
    update: T
    write_indices: T | None = None
    _: KW_ONLY
    axis: int = -2
    mode: str = "linear"
