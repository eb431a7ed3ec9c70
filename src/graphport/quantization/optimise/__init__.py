"""Precision as a choice of each layer: what it costs in time and in noise, and the best plans of all."""
