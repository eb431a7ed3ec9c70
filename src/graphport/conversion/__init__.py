"""Conversion between dialects: legalize, export and operator coverage."""
