"""NNEF as tract and torch_to_nnef write it: its own grammar, registries of operations, types and symbols."""
