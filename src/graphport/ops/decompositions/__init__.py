"""Operators as several canonical operators, for dialects that have no operator for them."""
