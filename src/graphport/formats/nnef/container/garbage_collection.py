"""Rests Python's cycle collector while a large tree grows."""

from graphport.core.garbage_collection import paused_collection

__all__ = ["paused_collection"]
