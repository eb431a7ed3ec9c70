"""Recognize folders of Hugging Face and GGUF files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

GGUF_MAGIC = b"GGUF"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
PICKLE = "pytorch_model.bin"
_MARKS = (CONFIG, WEIGHTS, INDEX, ADAPTER, "adapter_model.safetensors", PICKLE, f"{PICKLE}.index.json")


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is GGUF, or a folder has any file of a checkpoint, complete or not."""
    if head:
        return head.startswith(GGUF_MAGIC)
    return path.is_dir() and any((path / name).exists() or (path / name).is_symlink() for name in _MARKS)
