"""Families of encoders: the vocabulary of decoders, with bidirectional attention and heads of tasks."""

from __future__ import annotations

from graphport.formats.checkpoint.architecture.declaration import HEAD_SIZE, Family, Ratio, key

_BERT_NAMES = {
    "embed": "bert.embeddings.word_embeddings",
    "positions": "bert.embeddings.position_embeddings",
    "types": "bert.embeddings.token_type_embeddings",
    "embed_norm": "bert.embeddings.LayerNorm",
    "layer": "bert.encoder.layer.{}.",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
    "pooler": "bert.pooler.dense",
    "mlm_dense": "cls.predictions.transform.dense",
    "mlm_norm": "cls.predictions.transform.LayerNorm",
    "mlm_decoder": "cls.predictions.decoder",
    "mlm_bias": "cls.predictions.bias",
    "heads": "cls. lm_head. classifier. qa_outputs. vocab_ pre_classifier. discriminator_ generator_",
}
_BERT = {
    "kv_heads": Ratio("heads"),
    "head_size": HEAD_SIZE,
    "norm": "layer",
    "norm_bias": True,
    "norm_eps": key("layer_norm_eps", default=1e-12),
    "residual": "post",
    "final_norm": False,
    "embed_norm": True,
    "qkv_bias": True,
    "o_bias": True,
    "mlp_bias": True,
    "mlp": "plain",
    "act": key("hidden_act", default="gelu"),
    "positions": "learned",
    "window_layers": "none",
    "tied": key("tie_word_embeddings", default=True),
    "head_bias": True,
    "types": key("type_vocab_size", default=2),
    "mlm_act": key("hidden_act", default="gelu"),
}
_PROJECTED = {"embed_size": key("embedding_size", default=Ratio("hidden"))}
_ROBERTA = {
    **_BERT,
    "pad": key("pad_token_id", default=1),
    "classify": "dense",
    "mlm_act": "gelu",
}


def _renamed(prefix: str, **others: str) -> dict[str, str]:
    names = {role: name.replace("bert.", prefix, 1) for role, name in _BERT_NAMES.items()}
    return {**names, **others}


_ROBERTA_NAMES = _renamed(
    "roberta.",
    mlm_dense="lm_head.dense",
    mlm_norm="lm_head.layer_norm",
    mlm_decoder="lm_head.decoder",
    mlm_bias="lm_head.bias",
)

_ALBERT_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0."
"""All layers of ALBERT have the same weights."""
_ALBERT_NAMES = _renamed(
    "albert.",
    layer=_ALBERT_LAYER,
    q="attention.query",
    k="attention.key",
    v="attention.value",
    o="attention.dense",
    norm1="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    norm2="full_layer_layer_norm",
    pooler="albert.pooler",
    project_in="albert.encoder.embedding_hidden_mapping_in",
    mlm_dense="predictions.dense",
    mlm_norm="predictions.LayerNorm",
    mlm_decoder="predictions.decoder",
    mlm_bias="predictions.bias",
    heads=f"{_BERT_NAMES['heads']} predictions. sop_classifier.",
)

ENCODERS: dict[str, Family] = {
    "albert": Family(
        {
            **_BERT,
            **_PROJECTED,
            "act": key("hidden_act", default="gelu_new"),
            "pooled": True,
            "mlm_act": key("hidden_act", default="gelu_new"),
        },
        _ALBERT_NAMES,
        prefix="albert.",
    ),
    "bert": Family({**_BERT, "pooled": True}, _BERT_NAMES, prefix="bert."),
    "roberta": Family({**_ROBERTA, "pooled": True}, _ROBERTA_NAMES, prefix="roberta."),
    "xlm-roberta": Family({**_ROBERTA, "pooled": True}, _ROBERTA_NAMES, prefix="roberta."),
    "electra": Family(
        {**_BERT, **_PROJECTED, "mlm_act": "gelu", "classify": "dense", "classify_act": "gelu"},
        _renamed(
            "electra.",
            project_in="electra.embeddings_project",
            mlm_dense="generator_predictions.dense",
            mlm_norm="generator_predictions.LayerNorm",
            mlm_decoder="generator_lm_head",
            mlm_bias="generator_lm_head.bias",
        ),
        prefix="electra.",
    ),
    "distilbert": Family(
        {
            **_BERT,
            "hidden": key("dim"),
            "layers": key("n_layers"),
            "heads": key("n_heads"),
            "inner": key("hidden_dim"),
            "act": key("activation", default="gelu"),
            "mlm_act": key("activation", default="gelu"),
            "types": 0,
            "classify": "relu",
            "norm_eps": 1e-12,
        },
        {
            "embed": "distilbert.embeddings.word_embeddings",
            "positions": "distilbert.embeddings.position_embeddings",
            "embed_norm": "distilbert.embeddings.LayerNorm",
            "layer": "distilbert.transformer.layer.{}.",
            "q": "attention.q_lin",
            "k": "attention.k_lin",
            "v": "attention.v_lin",
            "o": "attention.out_lin",
            "norm1": "sa_layer_norm",
            "up": "ffn.lin1",
            "down": "ffn.lin2",
            "norm2": "output_layer_norm",
            "mlm_dense": "vocab_transform",
            "mlm_norm": "vocab_layer_norm",
            "mlm_decoder": "vocab_projector",
            "mlm_bias": "vocab_projector.bias",
            "heads": _BERT_NAMES["heads"],
        },
        prefix="distilbert.",
    ),
    "modernbert": Family(
        {
            **_BERT,
            "norm_bias": key("norm_bias", default=False),
            "norm_eps": key("norm_eps", default=1e-5),
            "residual": "serial",
            "final_norm": True,
            "qkv": "blocks",
            "qkv_bias": key("attention_bias", default=False),
            "o_bias": key("attention_bias", default=False),
            "mlp_bias": key("mlp_bias", default=False),
            "mlp": "joined",
            "act": key("hidden_activation", default="gelu"),
            "mlm_act": key("classifier_activation", default="gelu"),
            "mlm_dense_bias": key("classifier_bias", default=False),
            "positions": "rope",
            "theta": key("global_rope_theta", default=160000.0),
            "window": key("local_attention", default=128),
            "window_layers": "after_first",
            "window_pattern": key("global_attn_every_n_layers", default=3),
            "types": 0,
            "classify": "head",
            "classify_mean": key("classifier_pooling", default="cls"),
            "head_bias": key("decoder_bias", default=True),
        },
        {
            "embed": "model.embeddings.tok_embeddings",
            "embed_norm": "model.embeddings.norm",
            "final_norm": "model.final_norm",
            "layer": "model.layers.{}.",
            "qkv": "attn.Wqkv",
            "o": "attn.Wo",
            "norm1": "attn_norm",
            "norm2": "mlp_norm",
            "gate_up": "mlp.Wi",
            "down": "mlp.Wo",
            "mlm_dense": "head.dense",
            "mlm_norm": "head.norm",
            "mlm_decoder": "decoder",
            "mlm_bias": "decoder.bias",
            "heads": "head. decoder. classifier.",
        },
        prefix="model.",
    ),
}
"""Families by `model_type`."""
