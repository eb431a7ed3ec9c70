"""Passes from canonical graph to canonical graph that preserve semantics: one module per pass, and pass lists."""
