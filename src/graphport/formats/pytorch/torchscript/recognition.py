"""Recognize TorchScript archives, and other PyTorch files, for which the reader reports a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = (".pt", ".torchscript", ".ptl", ".pth")
LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
_ZIP = b"PK\3\4"
_MEMBERS = (
    b"/data.pkl",
    b"/code/",
    b"/constants.pkl",
    b"/data/0",
    b"MAR-INF/",
    b"/bytecode.pkl",
    b"/.data/",
    b"/byteorder",
)
_EXPORTED = (
    b"archive_format",
    b"archive_version",
    b"serialized_exported_program.json",
    b"data/weights/",
    b"data/aotinductor/",
)
_MOBILE = b"PTMF"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is an archive of torch.jit.save or torch.save, or another file of PyTorch."""
    del path
    if head[:4] == _ZIP:
        return any(member in head for member in _MEMBERS) and not any(member in head for member in _EXPORTED)
    return head.startswith(LEGACY) or head[4:8] == _MOBILE
