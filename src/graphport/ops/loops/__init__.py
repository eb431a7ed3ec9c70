"""Recognition of loops over time steps that compute recurrent layers."""
