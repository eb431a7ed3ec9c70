"""Losses in TFLite, which has no words for them."""

from __future__ import annotations

from graphport.ops.dialects.log_likelihood import register

register("tflite")
