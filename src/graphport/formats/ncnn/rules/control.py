"""Branches: ncnn has none."""

from __future__ import annotations

from graphport.ops.declare import lift
from graphport.ops.lowering.branches import lift_if

lift("ncnn", "If")(lift_if)
