"""Talking to people: the verbs of the command line, the only output and the only exit codes."""

from graphport.cli.main import main

__all__ = ["main"]
