"""The expressions of PNNX."""
