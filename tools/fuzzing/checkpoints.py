"""Seeds of checkpoints: the folders of the tests, and generated GGUF files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ROOT / "tests" / "formats" / "checkpoint" / "models"
GGUF = "m.gguf"
_WIDTH, _HEADS, _INNER, _VOCABULARY, _LAYERS = 32, 4, 64, 32, 2
_F32, _Q8_0 = 0, 8
_STRING, _ARRAY, _UINT32, _FLOAT32 = 8, 9, 4, 6
_ALIGNMENT = 32


def folders() -> list[dict[str, bytes]]:
    """Return the files of each checkpoint folder by name."""
    return [
        {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
        for folder in sorted(FOLDERS.iterdir())
        if folder.is_dir()
    ]


def gguf_files() -> list[bytes]:
    """Small decoders in GGUF: float32 and Q8_0, with and without optional keys."""
    return [
        gguf(architecture, kind, has_vocabulary=has_vocabulary)
        for architecture in ("llama", "granite")
        for kind in (_F32, _Q8_0)
        for has_vocabulary in (False, True)
    ]


def gguf(architecture: str, kind: int, *, has_vocabulary: bool) -> bytes:
    """Return a GGUF file of a decoder with two layers and zero weights."""
    keys: dict[str, Any] = {
        "general.architecture": architecture,
        f"{architecture}.context_length": 64,
        f"{architecture}.embedding_length": _WIDTH,
        f"{architecture}.block_count": _LAYERS,
        f"{architecture}.feed_forward_length": _INNER,
        f"{architecture}.attention.head_count": _HEADS,
        f"{architecture}.attention.head_count_kv": [2] * _LAYERS if has_vocabulary else 2,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{architecture}.rope.freq_base": 10000.0,
    }
    if has_vocabulary:
        keys["tokenizer.ggml.tokens"] = [f"t{number}" for number in range(_VOCABULARY)]
        keys["tokenizer.ggml.bos_token_id"] = 1
    return _file(keys, _shapes(), kind)


def _shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors by name, slowest axis first."""
    found: dict[str, tuple[int, ...]] = {"token_embd": (_VOCABULARY, _WIDTH), "output": (_VOCABULARY, _WIDTH)}
    found["output_norm"] = (_WIDTH,)
    own = {
        **dict.fromkeys(("attn_norm", "ffn_norm"), (_WIDTH,)),
        **dict.fromkeys(("attn_q", "attn_output"), (_WIDTH, _WIDTH)),
        **dict.fromkeys(("attn_k", "attn_v"), (_WIDTH // 2, _WIDTH)),
        **dict.fromkeys(("ffn_gate", "ffn_up"), (_INNER, _WIDTH)),
        "ffn_down": (_WIDTH, _INNER),
    }
    for layer in range(_LAYERS):
        found |= {f"blk.{layer}.{name}": shape for name, shape in own.items()}
    return {f"{name}.weight": shape for name, shape in found.items()}


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: Any) -> bytes:
    match value:
        case str():
            return struct.pack("<I", _STRING) + _text(value)
        case float():
            return struct.pack("<If", _FLOAT32, value)
        case list() if isinstance(value[0], str):
            return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))
        case list():
            return struct.pack(f"<IIQ{len(value)}I", _ARRAY, _UINT32, len(value), *value)
        case _:
            return struct.pack("<II", _UINT32, value)


def _file(keys: dict[str, Any], shapes: dict[str, tuple[int, ...]], kind: int) -> bytes:
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys))
    header += b"".join(_text(name) + _value(value) for name, value in keys.items())
    data = bytearray()
    for name, shape in shapes.items():
        own = _F32 if len(shape) == 1 else kind
        elements = 1
        for dim in shape:
            elements *= dim
        header += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], own, len(data))
        data += bytes(4 * elements if own == _F32 else elements // 32 * 34)
        data += bytes(-len(data) % _ALIGNMENT)
    return header + bytes(-len(header) % _ALIGNMENT) + bytes(data)
