"""Language-model checkpoints: folders of Hugging Face and GGUF files, read without torch.

container/      files: configuration, safetensors, GGUF, tensors decoded while they are read
architecture/   families of models as data, and the vocabulary that they are assembled from
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.checkpoint.container.recognition import recognizes
from graphport.formats.contract import Format, Hooks, deferred

if TYPE_CHECKING:
    from graphport.formats.checkpoint.reader import has_facts, read, versions

__all__ = ["FORMAT", "has_facts", "read", "recognizes", "versions"]

__getattr__ = first_used(
    __name__, dict.fromkeys(("has_facts", "read", "versions"), "graphport.formats.checkpoint.reader")
)

FORMAT = Format(
    "checkpoint",
    "language-model checkpoint",
    (".gguf",),
    "",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        has_facts=deferred(__name__, "has_facts"),
    ),
)
