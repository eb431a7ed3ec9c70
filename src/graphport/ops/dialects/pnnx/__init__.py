"""Words of PNNX: modules and functions of PyTorch by their Python names."""
