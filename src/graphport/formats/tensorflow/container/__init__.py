"""Bytes of SavedModels and GraphDefs to raw graphs."""
