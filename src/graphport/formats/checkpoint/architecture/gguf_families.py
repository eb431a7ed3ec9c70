"""Architectures of GGUF files: the family that each is, with other names and layouts of tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from graphport.formats.checkpoint.architecture.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.checkpoint.architecture.declaration import Family

NAMES = {
    "embed": "token_embd",
    "positions": "position_embd",
    "embed_norm": "token_embd_norm",
    "final_norm": "output_norm",
    "head": "output",
    "layer": "blk.{}.",
    "norm1": "attn_norm",
    "norm2": "ffn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "qkv": "attn_qkv",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "gate_up": "ffn_up",
    "after1": "post_attention_norm",
    "after2": "post_ffw_norm",
    "router": "ffn_gate_inp",
    "expert": "",
    "expert_gate": "ffn_gate_exps",
    "expert_up": "ffn_up_exps",
    "expert_down": "ffn_down_exps",
    "shared": "",
    "shared_gate": "ffn_gate_inp_shexp",
    "sinks": "attn_sinks",
}


@dataclass(frozen=True)
class GgufFamily:
    """An architecture: the model type of its family, other values, and keys by name in the configuration."""

    model_type: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def family(self) -> Family:
        """Return the declaration with the names and layouts of GGUF."""
        base = FAMILIES[self.model_type]
        layouts = {"expert_layout": "parts"} if base.values.get("experts") else {}
        values = {**base.values, **layouts, "has_rotary_factor": True, **self.values}
        return replace(base, values=values, names=NAMES, prefix="")


_PERMUTED = {"interleaved": True}
"""Rows of Q and K are permuted, so that pairs are neighbours."""
_PLUS_ONE = {"norm_offset": 0.0}
"""One is already added to the weights of norms."""
_CAPS = {"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping"}
_GRANITE_KEYS = {
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}

ARCHITECTURES: dict[str, GgufFamily] = {
    "llama": GgufFamily("llama", {**_PERMUTED, "window_layers": "all"}, {"sliding_window": "attention.sliding_window"}),
    "llama_moe": GgufFamily("mixtral", _PERMUTED),
    "granite": GgufFamily("granite", _PERMUTED, _GRANITE_KEYS),
    "smollm3": GgufFamily("smollm3", _PERMUTED),
    "qwen2": GgufFamily("qwen2", {"window_on": False}),
    "qwen2moe": GgufFamily("qwen2_moe", {"window_on": False}, config={"norm_topk_prob": False}),
    "qwen3": GgufFamily("qwen3", {"window_on": False}),
    "qwen3moe": GgufFamily("qwen3_moe", {"window_on": False}, config={"norm_topk_prob": True}),
    "gemma": GgufFamily("gemma", _PLUS_ONE),
    "gemma2": GgufFamily("gemma2", _PLUS_ONE, {**_CAPS, "sliding_window": "attention.sliding_window"}),
    "gemma3": GgufFamily(
        "gemma3_text",
        _PLUS_ONE,
        {**_CAPS, "sliding_window": "attention.sliding_window"},
        {"rope_local_base_freq": 10000.0},
    ),
    "phi2": GgufFamily("phi"),
    "phi3": GgufFamily("phi3", {}, {"sliding_window": "attention.sliding_window"}),
    "gpt2": GgufFamily("gpt2", {"in_by_out": False}),
    "gptneox": GgufFamily("gpt_neox", {"qkv": "blocks"}),
    "starcoder2": GgufFamily("starcoder2", {}, {"sliding_window": "attention.sliding_window"}),
    "stablelm": GgufFamily("stablelm"),
    "olmo2": GgufFamily("olmo2"),
    "command-r": GgufFamily("cohere", {}, {"logit_scale": "logit_scale"}),
}
"""Families by `general.architecture`."""
