"""Operator definitions, the rules of dialects, and shape inference."""
