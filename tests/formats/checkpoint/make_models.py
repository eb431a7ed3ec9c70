"""Write the folders in `models/` with transformers, and the logits that transformers computes (float32).

python make_models.py        needs torch 2.14 and transformers 5.24; weights are random (public domain)
python make_models.py NAME…  writes these models alone
python make_models.py blocks needs gguf 0.19: random blocks of each format and their values
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "models"
COMMON = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 24,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GPT = {"n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 32, "vocab_size": 24}
FALCON = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 24}
DEFAULT = {"rope_type": "default", "rope_theta": 1e4}
ALPHA = {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 50.0}
GPT_NEO = {"hidden_size": 16, "num_heads": 4, "num_layers": 2, "max_position_embeddings": 32, "vocab_size": 24}
SHARED = {
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.0,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 8}
MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", {**COMMON, "rope_parameters": YARN}),
    "qwen2": ("qwen2", {**COMMON, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
    "qwen3_moe": (
        "qwen3_moe",
        {**COMMON, "head_dim": 8, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    ),
    "gemma2": ("gemma2", {**COMMON, "head_dim": 8, "sliding_window": 3, "query_pre_attn_scalar": 6}),
    "gpt2": ("gpt2", GPT),
    "gpt_neox": ("gpt_neox", {**COMMON, "use_parallel_residual": False}),
    "gptj": ("gptj", {**GPT, "rotary_dim": 2}),
    "opt": ("opt", {**COMMON, "ffn_dim": 24, "do_layer_norm_before": False, "word_embed_proj_dim": 8}),
    "falcon_alibi": ("falcon", {**FALCON, "alibi": True, "multi_query": False, "parallel_attn": False}),
    "falcon_grouped": ("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "olmo2": ("olmo2", COMMON),
    "smollm3": ("smollm3", {**COMMON, "no_rope_layers": [1, 0]}),
    "stablelm": (
        "stablelm",
        {**COMMON, "use_parallel_residual": True, "rope_parameters": {**DEFAULT, "partial_rotary_factor": 0.5}},
    ),
    # OLMoE clips after the norms, other families before; Llama ignores partial rotation.
    "olmoe": (
        "olmoe",
        {**COMMON, "num_experts": 3, "num_experts_per_tok": 2, "norm_topk_prob": True, "clip_qkv": 0.8},
    ),
    "llama_partial": ("llama", {**COMMON, "rope_parameters": {**DEFAULT, "partial_rotary_factor": 0.5}}),
    "phi3_partial": ("phi3", {**COMMON, "head_dim": 8, "rope_parameters": {**DEFAULT, "partial_rotary_factor": 0.75}}),
    "cohere": ("cohere", {**COMMON, "use_qk_norm": True}),
    # The configuration of Gemma 3 has the key, and its attention does not use it.
    "gemma3": ("gemma3_text", {**COMMON, "head_dim": 8, "sliding_window": 3, "attn_logit_softcapping": 1.0}),
    # Helium's output projection has no bias; Hunyuan's base is fixed if `alpha` is present.
    "helium": ("helium", {**COMMON, "head_dim": 4, "attention_bias": True}),
    "hunyuan": (
        "hunyuan_v1_moe",
        {**COMMON, "head_dim": 8, "num_experts": 3, "moe_topk": 2, "rope_parameters": {**ALPHA, "factor": 1.0}},
    ),
    "gpt_neo": ("gpt_neo", {**GPT_NEO, "attention_types": [[["global", "local"], 1]], "window_size": 3}),
    "mpt": ("mpt", {"d_model": 24, "n_heads": 6, "n_layers": 2, "vocab_size": 24, "attn_config": {"clip_qkv": 0.6}}),
    "phimoe": ("phimoe", {**COMMON, "num_local_experts": 4, "attention_bias": True, "router_jitter_noise": 0.2}),
    "glm4_moe": (
        "glm4_moe",
        {**COMMON, **SHARED, "head_dim": 8, "n_routed_experts": 6, "n_group": 3, "topk_group": 2, "use_qk_norm": True},
    ),
    "ernie4_5_moe": (
        "ernie4_5_moe",
        {**COMMON, **SHARED, "moe_num_experts": 4, "moe_k": 2, "use_bias": True, "moe_layer_start_index": 1},
    ),
    "granitemoeshared": (
        "granitemoeshared",
        {**COMMON, "num_local_experts": 3, "shared_intermediate_size": 8, "residual_multiplier": 0.5},
    ),
    "persimmon": ("persimmon", COMMON),
}
BERT = {name: COMMON[name] for name in COMMON if name not in {"num_key_value_heads", "max_position_embeddings"}}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "vocab_size": 24}
BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}
MODERN = {**BERT, "num_hidden_layers": 3, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2}
ENCODERS: dict[str, tuple[str, str, dict[str, object]]] = {
    "bert": ("bert", "Model", BERT),
    "bert_untied": ("bert", "ForMaskedLM", {**BERT, "tie_word_embeddings": False}),
    "roberta": ("roberta", "ForSequenceClassification", {**BERT, "num_labels": 3, "pad_token_id": 1}),
    "distilbert": ("distilbert", "ForTokenClassification", {**DISTIL, "num_labels": 3}),
    "modernbert": ("modernbert", "ForMaskedLM", {**MODERN, **BIASES, "tie_word_embeddings": False}),
    "albert": ("albert", "ForMaskedLM", {**BERT, "embedding_size": 8}),
    "electra_mlm": ("electra", "ForMaskedLM", {**BERT, "embedding_size": 8}),
    "electra": ("electra", "ForSequenceClassification", {**BERT, "embedding_size": 8, "num_labels": 3}),
}


def write_models(names: list[str]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    for name, (kind, values) in MODELS.items():
        if names and name not in names:
            continue
        torch.manual_seed(7)
        config = AutoConfig.for_model(kind, **values)
        # The eager attention of Falcon adds ALiBi twice; Gemma 2 has no other one.
        attention = "eager" if kind in {"gemma2", "gpt_neo", "mpt"} else "sdpa"
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                is_norm = parameter.ndim == 1 and parameter_name.endswith("weight") and "gemma" not in kind
                scale = 0.3 if parameter.ndim == 1 else 1.5 / parameter.shape[-1] ** 0.5
                parameter.copy_((torch.randn_like(parameter) * scale + is_norm).to(torch.bfloat16).float())
            for buffer_name, buffer in model.named_buffers():
                if buffer_name.endswith("correction_bias"):
                    buffer.copy_((torch.randn_like(buffer) * 0.3).to(torch.bfloat16).float())
            model.tie_weights()
            ids = torch.randint(3, 24, (2, 6), generator=torch.Generator().manual_seed(1))
            mask = torch.ones_like(ids)
            mask[1, :2] = 0
            first = run(model, ids, mask, None)
            following = torch.randint(3, 24, (2, 3), generator=torch.Generator().manual_seed(2))
            whole = torch.cat([mask, torch.ones_like(following)], 1)
            second = run(model, following, whole, first.past_key_values)
        np.savez_compressed(
            HERE / f"{name}.npz",
            ids=ids.numpy(),
            mask=mask.numpy(),
            logits=first.logits.numpy(),
            next=following.numpy(),
            next_logits=second.logits.numpy(),
        )
        model.to(torch.bfloat16).save_pretrained(HERE / name)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)


def write_encoders(names: list[str]) -> None:
    import torch
    import transformers

    heads = {
        "Model": transformers.AutoModel,
        "ForMaskedLM": transformers.AutoModelForMaskedLM,
        "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
        "ForTokenClassification": transformers.AutoModelForTokenClassification,
    }
    for name, (kind, head, values) in ENCODERS.items():
        if names and name not in names:
            continue
        torch.manual_seed(7)
        config = transformers.AutoConfig.for_model(kind, **{**values, "max_position_embeddings": 32})
        model = heads[head].from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                scale = 0.3 if parameter.ndim == 1 else 1.5 / parameter.shape[-1] ** 0.5
                parameter.copy_((torch.randn_like(parameter) * scale).to(torch.bfloat16).float())
            model.tie_weights()
            generator = torch.Generator().manual_seed(1)
            ids, mask = torch.randint(3, 24, (2, 7), generator=generator), torch.ones(2, 7, dtype=torch.int64)
            mask[1, 5:], ids[1, 5:] = 0, config.pad_token_id
            given = {"input_ids": ids, "attention_mask": mask}
            if kind in {"bert", "albert", "electra", "roberta"}:
                given["token_type_ids"] = torch.randint(0, 2, (2, 7), generator=generator)
            found = model(**given)
        arrays = {name: value.numpy() for name, value in {**given, **found}.items()}
        np.savez_compressed(HERE / f"encoder_{name}.npz", **arrays)
        model.to(torch.bfloat16).save_pretrained(HERE / f"encoder_{name}")


def run(model, ids, mask, past):
    import inspect

    positions = (mask.cumsum(1) - 1).clip(0)[:, -ids.shape[1] :]
    has_positions = "position_ids" in inspect.signature(model.forward).parameters
    extra = {"position_ids": positions} if has_positions else {}
    return model(input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=True, **extra)


def write_blocks() -> None:
    import gguf

    rng = np.random.default_rng(0)
    found = {}
    for kind in gguf.GGMLQuantizationType:
        if kind.value not in {0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 35, 39}:
            continue
        blocks = rng.integers(0, 256, (3, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
        found[f"blocks_{kind.value}"] = blocks
        found[f"values_{kind.value}"] = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    np.savez_compressed(HERE / "blocks.npz", **found)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    if sys.argv[1:] == ["blocks"]:
        write_blocks()
    else:
        write_models(sys.argv[1:])
        write_encoders(sys.argv[1:])
