"""Language-model checkpoints: folders of Hugging Face and GGUF files, read without torch.

container/      files: configuration, safetensors, GGUF, tensors decoded while they are read
architecture/   families of models as data, and the vocabulary that they are assembled from
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy import first_used
from graphport.formats.checkpoint.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.checkpoint.reader import has_facts, read, versions

__all__ = ["has_facts", "read", "recognizes", "versions"]

__getattr__ = first_used(
    __name__, dict.fromkeys(("has_facts", "read", "versions"), "graphport.formats.checkpoint.reader")
)
