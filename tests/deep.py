"""How deep is deep in the tests: some times what Python's own stack bears, which is 1,000 calls.

`tests/conformance/test_depth.py` tries it five times as deep, which takes five times as long.
"""

LEVELS = 4_000
"""Levels of nesting; chains have five links for each."""
