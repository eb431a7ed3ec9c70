"""Losses in TFLite, which has no words for them."""

from __future__ import annotations

from graphport.ops.decompositions.log_likelihood import register

register("tflite")
