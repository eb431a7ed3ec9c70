"""Declarations of decoders: fields with values or configuration keys, resolved and checked."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.formats.checkpoint.container.config import Config

MAX_LAYERS = 1 << 12
MAX_HEADS = 1 << 14
MAX_EXPERTS = 1 << 12


class Key(NamedTuple):
    """A value of the configuration: the first of `names` that is present, else `default`."""

    names: tuple[str, ...]
    default: Any = None
    is_inverted: bool = False


def key(*names: str, default: Any = None) -> Key:
    """Return the value of the configuration with one of `names`."""
    return Key(names, default)


class Ratio(NamedTuple):
    """A default computed from other fields: `field * factor / per`."""

    field: str
    factor: int = 1
    per: str = ""


HEAD_SIZE = Ratio("hidden", per="heads")


def inverse(name: str, *, default: bool) -> Key:
    """Return the inverse of a boolean of the configuration."""
    return Key((name,), default, is_inverted=True)


class Variant(NamedTuple):
    """Fields of a declaration that apply if a value of the configuration, or its default, is `value`."""

    name: str
    values: Mapping[str, Any]
    value: bool | int = True
    default: bool | int = False


@dataclass(frozen=True)
class Family:
    """A family of models: values and configuration keys by field of `Decoder`, and tensor names by role."""

    values: Mapping[str, Any]
    names: Mapping[str, str]
    variants: Sequence[Variant] = ()
    prefix: str = "model."
    """The prefix of all tensors but the head's, which some files leave out."""


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A decoder; `0`, `""` and `False` mean absent."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocab: int
    context: int
    embed_size: int = 0
    """Width of the embeddings, if they are projected to `hidden` (OPT)."""
    tied: bool = False
    head_bias: bool = False

    norm: str = "rms"
    """`rms` or `layer` (with mean)."""
    norm_eps: float = 1e-5
    norm_offset: float = 0.0
    """Added to the weights of norms (Gemma: 1)."""
    norm_affine: bool = True
    norm_bias: bool = False
    embed_norm: bool = False
    final_norm: bool = True

    residual: str = "serial"
    """`serial`, `parallel`, or `post` (norms after the sums)."""
    norm_before: bool = True
    norm_after: bool = False
    """Norms of the results of attention and MLP, before they are added."""
    residual_from_norm: bool = False
    """Whether the normalized input is what results are added to (BLOOM)."""
    mlp_norm: bool = True
    """Whether the MLP has a norm of its own; otherwise it shares that of attention (`parallel`)."""
    residual_scale: float = 1.0
    embed_scale: float = 1.0
    embed_scale_root: bool = False
    logit_scale: float = 1.0
    logit_divisor: float = 1.0
    final_softcap: float = 0.0

    qkv: str = "separate"
    """How the rows of Q, K and V are arranged: `separate`, `blocks`, `heads`, `groups` or `codegen`."""
    qkv_bias: bool = False
    o_bias: bool = False
    in_by_out: bool = False
    """Whether matrices are stored [in, out] (GPT-2)."""
    qk_norm: str = ""
    """`head` (one norm for all heads), `heads` (weights per head) or `width` (over all heads)."""
    qk_norm_on: bool = True
    qk_norm_after_rotation: bool = False
    clip_qkv: float = 0.0
    scale: float = 0.0
    """Factor of the scores; 0: 1 / sqrt(head size)."""
    query_scalar: float = 0.0
    """The scale is 1 / sqrt(query_scalar)."""
    scaled: bool = True
    scale_by_layer: bool = False
    softcap: float = 0.0
    sinks: bool = False

    positions: str = "rope"
    """`rope`, `learned`, `alibi` or `none`."""
    position_offset: int = 0
    positions_from_mask: bool = False
    alibi_max: float = 8.0
    """Negative base-2 logarithm of the least slope, for a power of two of heads."""
    alibi_rounded: bool = False
    """Falcon: biases are rounded to bfloat16 and scaled like the scores."""
    interleaved: bool = False
    rotary_factor: float = 1.0
    has_rotary_factor: bool = False
    """Whether the configuration may set `rotary_factor`; transformers ignores it for other families."""
    rotary_size: int = 0
    theta: float = 10000.0
    rope_default: str = "default"
    rope_layers: str = ""
    """Which layers rotate: all, by the keys of `smollm3`, those with a `window`, or those `window_if_any` has one."""

    window: int = 0
    window_layers: str = "all"
    """Which layers have the window: `all`, `none`, `types`, `stated`, `upper`, `even`, `pattern` or `after_first`."""
    window_types: str = "layer_types"
    """Key of the list of the types of all layers."""
    window_on: bool = True
    window_pattern: int = 0

    mlp: str = "gated"
    """`gated`, `joined` (gate and up in one matrix) or `plain`."""
    act: str = "silu"
    mlp_bias: bool = False

    experts: int = 0
    experts_per_token: int = 0
    expert_inner: int = 0
    expert_layout: str = "separate"
    """`separate`, `stacked` [experts, out, in], or `gpt_oss`."""
    router: str = "softmax"
    """`softmax` or `sigmoid` before the choice of experts, `chosen`: softmax over the chosen ones, or `sparsemixer`."""
    router_normalized: bool = True
    router_bias: bool = False
    router_correction: bool = False
    """Whether a bias per expert is added to the scores for the choice alone."""
    router_groups: int = 1
    router_groups_kept: int = 1
    """Number of groups of experts, and of those from which experts are chosen: the ones with the largest two scores."""
    router_scale: float = 1.0
    router_jitter: float = 0.01
    """Half of the distance from the largest score, relative to it, within which `sparsemixer` weighs experts."""
    first_expert_layer: int = 0
    last_expert_layer: int = -1
    """First and last layer with experts; -1: the last one of the model."""
    expert_layer_step: int = 1
    shared_inner: int = 0
    shared_experts: int = 1
    """Number of shared experts; they are one MLP, whose width is `shared_inner` times that number."""
    shared_gate: bool = False
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0

    types: int = 0
    """Encoders: number of token types."""
    pad: int = -1
    """Encoders: the token that positions do not count; -1: positions count all tokens."""
    pooled: bool = False
    """Encoders: whether the model without a head returns a pooled output."""
    classify: str = "pooler"
    """Encoders: what is in front of a classifier: `pooler`, `dense`, `relu` or `head`."""
    classify_act: str = "tanh"
    classify_mean: str = "cls"
    mlm_act: str = "gelu"
    mlm_dense_bias: bool = True

    names: Mapping[str, str] = field(default_factory=dict[str, str])


_LOWS = {
    "pad": 0,
    "types": 0,
    "position_offset": 0,
    "experts": 0,
    "experts_per_token": 0,
    "window": 0,
    "shared_inner": 0,
    "shared_experts": 0,
    "first_expert_layer": 0,
    "last_expert_layer": -1,
    "rotary_size": 0,
}
_HIGHS = {"layers": MAX_LAYERS, "heads": MAX_HEADS, "kv_heads": MAX_HEADS, "experts": MAX_EXPERTS}


def resolve(family: Family, config: Config) -> Decoder:
    """Return the decoder that a configuration of a family describes.

    Raises:
        DiagnosticError: CKPT0006: a value is missing, of another type or out of range.
    """
    declared: dict[str, Any] = {**COMMON, **family.values}
    for variant in family.variants:
        if config.find([variant.name])[1] in _answers(variant):
            declared.update(variant.values)
    found: dict[str, Any] = {"names": {**family.names, **declared.pop("names", {})}}
    types = {each.name: str(each.type) for each in fields(Decoder)}
    for name in ("hidden", "heads"):
        found[name] = _value(name, types[name], declared[name], config, found)
    for name, value in declared.items():
        if name not in found:
            found[name] = _value(name, types[name], value, config, found)
    decoder = Decoder(**found)
    if decoder.heads % decoder.kv_heads:
        message = f"{decoder.heads} heads cannot be split into {decoder.kv_heads} groups"
        raise config.fault("num_key_value_heads", message)
    if decoder.experts and not 1 <= decoder.experts_per_token <= decoder.experts:
        message = f"{decoder.experts_per_token} experts per token exceed the {decoder.experts} experts"
        raise config.fault("num_experts_per_tok", message)
    return decoder


def _value(name: str, kind: str, value: Any, config: Config, found: Mapping[str, Any]) -> Any:
    if isinstance(value, Ratio):
        return _ratio(value, found, config)
    if not isinstance(value, Key):
        return value
    default: Any = value.default
    if isinstance(default, Ratio):
        default = _ratio(default, found, config)
    if kind == "int":
        return config.integer(*value.names, default=default, low=_LOWS.get(name, 1), high=_HIGHS.get(name, 1 << 31))
    if kind == "float":
        return config.finite_float(*value.names, default=default)
    if kind == "bool":
        return config.flag(*value.names, default=default) is not value.is_inverted
    return config.text(*value.names, default=default)


def _answers(variant: Variant) -> tuple[object, ...]:
    """Return the values with which a variant applies."""
    return (variant.value, None) if variant.default == variant.value else (variant.value,)


def _ratio(ratio: Ratio, found: Mapping[str, Any], config: Config) -> int:
    value, divisor = found[ratio.field] * ratio.factor, found.get(ratio.per, 1)
    if value % divisor:
        raise config.fault("hidden_size", f"a hidden size of {value} cannot be split into {divisor} heads")
    return value // divisor


COMMON: dict[str, Any] = {
    "hidden": key("hidden_size", "n_embd", "d_model", "n_embed"),
    "layers": key("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": key("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": key("num_key_value_heads", default=Ratio("heads")),
    "head_size": key("head_dim", default=HEAD_SIZE),
    "inner": key("intermediate_size"),
    "vocab": key("vocab_size"),
    "context": key("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", default=2048),
    "tied": key("tie_word_embeddings", default=False),
    "norm_eps": key("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", default=1e-5),
    "expert_layer_step": key("decoder_sparse_step", default=1),
    "act": key("hidden_act", "activation_function", "hidden_activation", "activation", default="silu"),
}
"""Values that most configurations have, and their names."""
