"""Op pages: what each operator means, its shapes, and how each language spells it; the inference driver."""
