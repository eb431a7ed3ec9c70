"""Export rules of losses, for which TFLite has no operators."""

from __future__ import annotations

from graphport.ops.decompositions.log_likelihood import register

register("tflite")
