"""Canonical graph to canonical graph with the same meaning: one file a pass, and lists of passes."""
