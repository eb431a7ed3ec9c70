"""The expression language of pnnx: tokens, syntax tree, reverse Polish notation, evaluation and fused kernels."""
