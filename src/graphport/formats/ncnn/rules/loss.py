"""Export rules of losses, for which ncnn has no layers."""

from __future__ import annotations

from graphport.ops.decompositions.log_likelihood import register

register("ncnn")
