"""Operations of CHLO, and composites that have a rule of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

COMPOSITES: dict[str, Callable[..., list]] = {}
