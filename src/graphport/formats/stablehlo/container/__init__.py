"""The files of StableHLO: text, bytecode and jax.export, each read to a `Program`."""
