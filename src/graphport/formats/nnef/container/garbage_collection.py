"""Rests Python's cycle collector while a large tree grows."""

from graphport.core.collection import paused_collection

__all__ = ["paused_collection"]
