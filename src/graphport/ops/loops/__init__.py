"""Recognition of loops over time that compute recurrent layers."""
