"""Operator definitions: a package for each family, a function for each operator, independent of dialects."""
