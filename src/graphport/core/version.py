"""The version, which the package, its metadata and the files that it writes say."""

__version__ = "0.2.0"
