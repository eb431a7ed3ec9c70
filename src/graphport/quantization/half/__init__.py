"""Half precision: which nodes compute in it, and a graph that says so; and back to single precision."""
