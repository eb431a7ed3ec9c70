"""GGUF files of the folders in `models/`: the layouts of llama.cpp compute the same, in both byte orders."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import graphport as gp

MODELS = Path(__file__).parent / "models"
SHARED = {"model.norm": "output_norm", "lm_head": "output", "embed_out": "output"}
NAMES = {
    **SHARED,
    "model.embed_tokens": "token_embd",
    "gpt_neox.embed_in": "token_embd",
    "gpt_neox.final_layer_norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up",
    "mlp.dense_4h_to_h": "ffn_down",
}
HEADS, SIZE = 4, 4
LLAMA = {
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.head_count_kv": 2,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 8,
}
STABLELM = {
    "attention.layer_norm_epsilon": 1e-5,
    "attention.head_count_kv": 2,
    "rope.dimension_count": 2,
    "use_parallel_residual": True,
}
NEOX = {"attention.layer_norm_epsilon": 1e-5, "rope.dimension_count": 1, "use_parallel_residual": False}
CASES = {"llama": ("llama", LLAMA), "stablelm": ("stablelm", STABLELM), "gpt_neox": ("gptneox", NEOX)}


def tensors_of(name):
    """Return the tensors of a folder with the names and row orders of llama.cpp."""
    data = (MODELS / name / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, found = json.loads(data[8 : 8 + length]), {}
    for old, entry in header.items():
        if old == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[begin:end], ml_dtypes.bfloat16).astype(np.float32).reshape(entry["shape"])
        stem, _, end_name = old.rpartition(".")
        if name == "llama" and stem.endswith(("q_proj", "k_proj")):
            array = array.reshape(-1, 2, SIZE // 2, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
        if "query_key_value" in stem:
            array = array.reshape(HEADS, 3, SIZE, -1).swapaxes(0, 1).reshape(array.shape)
        parts = stem.split(".layers.")
        if len(parts) == 2:
            number, _, role = parts[1].partition(".")
            stem = f"blk.{number}.{NAMES[role]}"
        else:
            stem = NAMES[stem]
        found[f"{stem}.{end_name}"] = array
    return found


def write_gguf(path, architecture, values, tensors, order):
    def string(text):
        return struct.pack(f"{order}Q", len(text)) + text.encode()

    def entry(key, value):
        if isinstance(value, str):
            return string(key) + struct.pack(f"{order}I", 8) + string(value)
        kind, code = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}[type(value)]
        return string(key) + struct.pack(f"{order}I{code}", kind, value)

    sizes = {"block_count": 2, "context_length": 32, "embedding_length": 16, "feed_forward_length": 24}
    sizes |= {"attention.head_count": HEADS, "rope.freq_base": 10000.0}
    keys = [entry("general.architecture", architecture)]
    keys += [entry(f"{architecture}.{key}", value) for key, value in {**sizes, **values}.items()]
    head = b"GGUF" + struct.pack(f"{order}IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, array in tensors.items():
        shape = array.shape[::-1]
        head += string(name) + struct.pack(f"{order}I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += array.astype(f"{order}f4").tobytes()
        data += bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


@pytest.mark.parametrize("order", ["<", ">"], ids=["little-endian", "big-endian"])
@pytest.mark.parametrize("name", CASES)
def test_logits_equal_those_of_the_folder(name, order, tmp_path):
    architecture, values = CASES[name]
    write_gguf(tmp_path / "m.gguf", architecture, values, tensors_of(name), order)
    model, stored = gp.load(tmp_path / "m.gguf"), np.load(MODELS / f"{name}.npz")
    mask = stored["mask"]
    positions = np.clip(mask.cumsum(1) - 1, 0, None)
    given = {"input_ids": stored["ids"], "attention_mask": mask, "position_ids": positions}
    heads = values.get("attention.head_count_kv", HEADS)
    given |= {name: np.zeros((2, heads, 0, SIZE), np.float32) for name in model.inputs if name.startswith("past")}
    seen = mask.astype(bool)
    np.testing.assert_allclose(gp.run(model, given)["logits"][seen], stored["logits"][seen], rtol=0, atol=2e-4)
