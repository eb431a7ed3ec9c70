"""The models that pnnx wrote, with what PyTorch computes."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ARCHIVE = Path(__file__).parent / "data" / "pytorch.zip"
TEXT, WEIGHTS = ".pnnx.param", ".pnnx.bin"

DRAWS = {
    "normal": lambda random, spec: random.standard_normal(spec["shape"]).astype(np.float32),
    "positive": lambda random, spec: (random.random(spec["shape"]) + 0.3).astype(np.float32),
    "unit": lambda random, spec: (random.random(spec["shape"]) * 1.6 - 0.8).astype(np.float32),
    "integers": lambda random, spec: random.integers(0, spec["high"], spec["shape"]),
    "bool": lambda random, spec: random.random(spec["shape"]) > 0.5,
}


@cache
def _contents() -> dict[str, bytes]:
    """All files; a directory of 1,600 names is read once and not for each of them."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def names() -> list[str]:
    return sorted(name.removesuffix(TEXT) for name in _contents() if name.endswith(TEXT))


def content(name: str) -> bytes:
    return _contents()[name]


def unpack(name: str, folder: Path) -> Path:
    """Write a model into `folder` and return the path of its text."""
    for ending in (TEXT, WEIGHTS):
        (folder / f"{name}{ending}").write_bytes(content(f"{name}{ending}"))
    return folder / f"{name}{TEXT}"


def draw(spec: dict[str, Any]) -> np.ndarray:
    if "values" in spec:
        return np.array(spec["values"], spec["dtype"])
    return DRAWS[spec["kind"]](np.random.default_rng(spec["seed"]), spec)


def case(name: str) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    """Inputs, and what is known of the outputs."""
    spec = json.loads(content(f"{name}.json"))
    return [draw(each) for each in spec["inputs"]], spec["outputs"]


def digest(code: str) -> str:
    """A hash of generated Python; versions of Python differ in blanks and parentheses."""
    return hashlib.sha256(re.sub(r"[\s()]", "", code).encode()).hexdigest()[:16]
