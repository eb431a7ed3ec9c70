"""Select the precision of each layer: cost in time and noise, and the Pareto front of plans."""
