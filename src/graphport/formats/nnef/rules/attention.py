"""Attention in NNEF: its formula, written out."""

from __future__ import annotations

from graphport.ops.decompositions.attention import attention
from graphport.ops.views.attention import AttentionView

AttentionView.export_rule("nnef")(attention)
