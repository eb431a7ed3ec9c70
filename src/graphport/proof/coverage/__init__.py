"""Which parts of a model the test inputs of a proof reach."""
