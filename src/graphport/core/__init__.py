"""Diagnostics and spans, dtypes, symbolic dims, facts, storages, names."""
