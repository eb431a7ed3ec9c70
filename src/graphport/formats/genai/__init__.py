"""Folders of onnxruntime-genai: `model.onnx` with caches, `genai_config.json` and the tokenizer's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.formats.genai.reader import read, versions
    from graphport.formats.genai.writer import write

__all__ = ["CONFIG", "FORMAT", "read", "recognizes", "versions", "write"]

CONFIG = "genai_config.json"

__getattr__ = first_used(
    __name__,
    {
        "read": "graphport.formats.genai.reader",
        "versions": "graphport.formats.genai.reader",
        "write": "graphport.formats.genai.writer",
    },
)


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a folder has the configuration of onnxruntime-genai."""
    return not head and (path / CONFIG).is_file()


FORMAT = Format(
    "genai",
    "onnxruntime-genai folder",
    (),
    "",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
    ),
    takes_any_model=False,
)
