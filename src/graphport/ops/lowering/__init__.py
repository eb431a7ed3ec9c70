"""Support for rules: what several dialects share on top of the operator definitions.

How a dialect binds operands and attributes is defined in the `binding.py` of its rules.
"""
