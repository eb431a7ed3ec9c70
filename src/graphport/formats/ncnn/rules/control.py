"""Branches: ncnn has none."""

from __future__ import annotations

from graphport.ops.declare import export_rule
from graphport.ops.lowering.branches import export_if

export_rule("ncnn", "If")(export_if)
