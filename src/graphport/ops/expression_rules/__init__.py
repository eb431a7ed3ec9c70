"""The rules of PNNX expressions."""
