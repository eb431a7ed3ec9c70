"""Format layer parameters as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def keyed(parameters: Mapping[int, Any]) -> str:
    """Format parameters as `0=1 1=0.5 -23303=2,0,1`; `None` is omitted."""
    return " ".join(_word(key, value) for key, value in parameters.items() if value is not None)


def _word(key: int, value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{-23300 - key}={','.join([str(len(value)), *map(_spelt, value)])}"
    return f"{key}={_spelt(value)}"


def _spelt(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.6f}"
        return text if float(text) == value else f"{value:e}"
    return str(value)


def maybe(random: np.random.Generator, value: Any) -> Any:
    """Return the value, or `None` to omit it."""
    return value if random.random() < 0.6 else None
