"""Half precision: select nodes, insert casts, and convert back to single precision."""
