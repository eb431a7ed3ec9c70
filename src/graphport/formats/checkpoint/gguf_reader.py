"""GGUF files as configurations and tensors of a family."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Source
from graphport.formats.checkpoint.architecture.gguf_families import ARCHITECTURES, GgufFamily
from graphport.formats.checkpoint.container import blocks
from graphport.formats.checkpoint.container.blocks import BlockStorage
from graphport.formats.checkpoint.container.config import Config
from graphport.formats.checkpoint.container.faults import fault
from graphport.formats.checkpoint.container.gguf import BlockTensor, Gguf, gguf_fault, read_gguf

if TYPE_CHECKING:
    from pathlib import Path

_PART = re.compile(r"^(.*)-(\d{5})-of-(\d{5})\.gguf$")
_MAX_PARTS = 1000
_FREQUENCIES = "rope_freqs.weight"
_FACTORS = ("rope_factors_short.weight", "rope_factors_long.weight")
_LARGE = {"gemma2": 46, "gemma3": 62}
"""Numbers of layers of models whose scale is 1 / sqrt(hidden size / heads)."""

_KEYS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "use_parallel_residual": "use_parallel_residual",
}
"""Keys of all architectures by their names in a configuration."""


def read_file(path: Path) -> tuple[str, GgufFamily, Config, dict[str, BlockStorage]]:
    """Return the architecture, its family, the configuration and the tensors of a file, or of a file in parts.

    Raises:
        DiagnosticError: CKPT0001, CKPT0004: a file cannot be read or is malformed; CKPT0005 it is of a kind that is
            not read; CKPT0006 a key is missing or out of range.
    """
    source = Source(str(path))
    file = read_gguf(path)
    tensors = dict(file.tensors)
    for part in _following_files(path, file, source):
        tensors.update(part.tensors)
    storages = {name: _storage(name, tensor, source) for name, tensor in tensors.items()}
    architecture = file.keys.get("general.architecture")
    if not isinstance(architecture, str):
        raise gguf_fault(f"GGUF: general.architecture is {str(architecture)[:60]!r}", source, "general.architecture")
    is_moe = bool(file.keys.get(f"{architecture}.expert_count"))
    found = ARCHITECTURES.get(f"{architecture}_moe" if is_moe else "") or ARCHITECTURES.get(architecture)
    if found is None:
        message = f"unsupported: GGUF files of the architecture {architecture[:60]!r}"
        known = ", ".join(sorted(name for name in ARCHITECTURES if not name.endswith("_moe")))
        raise fault("CKPT0005", message, source, "general.architecture", f"read are: {known}")
    config = _config(architecture, found, file, storages, source)
    tokens = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    values = {name: file.keys.get(f"tokenizer.ggml.{key}_token_id") for name, key in tokens.items()}
    config = Config({**config.values, **values}, config.source, config.prefix)
    storages.pop(_FREQUENCIES, None)
    for name in _FACTORS:
        storages.pop(name, None)
    return architecture, found, config, storages


def _following_files(path: Path, file: Gguf, source: Source) -> list[Gguf]:
    count = file.keys.get("split.count", 1)
    if type(count) is not int or not 0 <= count <= _MAX_PARTS:
        raise gguf_fault(f"split.count is {str(count)[:40]}", source, "split.count")
    if count <= 1:
        return []
    match = _PART.match(path.name)
    if match is None or int(match[3]) != count or file.keys.get("split.no") != 0:
        message = f"{path.name} is not the first of {count} parts"
        raise fault("CKPT0001", message, source, "split.no", f"open NAME-00001-of-{count:05}.gguf")
    parts: list[Gguf] = []
    for number in range(2, count + 1):
        part = read_gguf(path.with_name(f"{match[1]}-{number:05}-of-{count:05}.gguf"))
        if part.keys.get("split.no") != number - 1 or part.keys.get("split.count") != count:
            message = f"file {number} has split.no {part.keys.get('split.no')}, expected {number - 1}"
            raise gguf_fault(message, source, "split.no")
        parts.append(part)
    return parts


def _storage(name: str, tensor: BlockTensor, source: Source) -> BlockStorage:
    format_ = blocks.FORMATS.get(tensor.kind)
    if format_ is None and tensor.kind not in blocks.NAMES:
        message = f"the tensor {name[:80]!r} has the unknown type {tensor.kind}"
        raise gguf_fault(message, source, name[:80], "update graphport")
    if format_ is None:
        message = f"unsupported: the tensor {name[:80]!r} is in the format {blocks.NAMES[tensor.kind]}"
        raise fault("CKPT0005", message, source, name[:80], "quantize the model to one of Q2_K to Q8_0")
    if tensor.is_big_endian and format_.elements > 1:
        message = f"unsupported: the tensor {name[:80]!r} is in the format {format_.name} and big-endian"
        raise fault("CKPT0005", message, source, name[:80], "convert the file to little-endian")
    if not tensor.shape or tensor.shape[-1] % format_.elements or prod(tensor.shape) == 0:
        message = f"the tensor {name[:80]!r} of {format_.name} has the shape {list(tensor.shape)}"
        raise gguf_fault(message, source, name[:80])
    found = BlockStorage(tensor.file, tensor.start, format_, tensor.shape, is_big_endian=tensor.is_big_endian)
    if tensor.start + found.stored_bytes > tensor.file.size:
        message = f"the tensor {name[:80]!r} ends at byte {tensor.start + found.stored_bytes} of {tensor.file.size}"
        raise gguf_fault(message, source, name[:80])
    return found


def _config(
    architecture: str, family: GgufFamily, file: Gguf, tensors: dict[str, BlockStorage], source: Source
) -> Config:
    keys = {name.removeprefix(f"{architecture}."): value for name, value in file.keys.items()}
    values: dict[str, Any] = dict(family.config)
    for name, key in {**_KEYS, **family.keys}.items():
        value: Any = keys.get(key)
        if isinstance(value, list):
            value = _uniform_value(cast("list[Any]", value), key, source)
        if value is not None:
            values[name] = value
    if "token_embd.weight" in tensors:
        values["vocab_size"] = tensors["token_embd.weight"].shape[0]
    for key in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        if key in keys:
            values["rms_norm_eps"] = keys[key]
    values.setdefault("num_local_experts", values.get("num_experts"))
    values["tie_word_embeddings"] = "output.weight" not in tensors
    for name in ("attention_bias", "use_qkv_bias", "use_bias"):
        values[name] = "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors
    values["use_qk_norm"] = values["qk_layernorm"] = "blk.0.attn_q_norm.weight" in tensors
    config = Config(values, source, f"{architecture}.")
    heads = config.integer("num_attention_heads")
    if not config.has("head_dim"):
        values["head_dim"] = max(config.integer("hidden_size") // heads, 1)
    values["n_inner"] = values.get("intermediate_size")
    if _LARGE.get(architecture) == values.get("num_hidden_layers"):
        values["query_pre_attn_scalar"] = config.integer("hidden_size") // heads
    elif architecture in _LARGE:
        values["query_pre_attn_scalar"] = values["head_dim"]
    if "rope.dimension_count" in keys:
        values["partial_rotary_factor"] = Config(keys, source).integer("rope.dimension_count") / config.integer(
            "head_dim"
        )
    values["rope_scaling"] = _scaling(keys, tensors, source)
    return config


def _uniform_value(values: list[Any], key: str, source: Source) -> Any:
    if not values or any(value != values[0] for value in values):
        message = f"unsupported: {key} differs between layers"
        raise fault("CKPT0005", message, source, key, "use a model whose layers have equal sizes")
    return values[0]


def _scaling(keys: dict[str, Any], tensors: dict[str, BlockStorage], source: Source) -> dict[str, Any] | None:
    """Return the parameters of rotary scaling as in a configuration."""
    original = keys.get("rope.scaling.original_context_length")
    common = {} if original is None else {"original_max_position_embeddings": original}
    attention = keys.get("rope.scaling.attn_factor")
    if all(name in tensors for name in _FACTORS):
        factors = [_rope_factors(name, tensors, source) for name in _FACTORS]
        found = {"rope_type": "longrope", "short_factor": factors[0], "long_factor": factors[1], **common}
        return found if attention is None else {**found, "attention_factor": attention}
    if _FREQUENCIES in tensors:
        return {"rope_type": "divided", "divisors": _rope_factors(_FREQUENCIES, tensors, source)}
    kind = keys.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    return {"rope_type": str(kind), "factor": keys.get("rope.scaling.factor"), **common}


def _rope_factors(name: str, tensors: dict[str, BlockStorage], source: Source) -> list[float]:
    storage = tensors[name]
    if storage.count > 1 << 12:
        raise gguf_fault(f"{name} has {storage.count} elements", source, name)
    return storage.numpy().reshape(-1).astype(float).tolist()
