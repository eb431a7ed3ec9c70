"""The version of the package, written to metadata and files."""

__version__ = "0.2.0"
