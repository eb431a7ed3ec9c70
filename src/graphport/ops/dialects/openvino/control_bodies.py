"""Bodies of OpenVINO's control flow: how they are connected."""

from __future__ import annotations

Map = tuple[tuple[int, ...], ...]
Edges = tuple[tuple[int, int], ...]
